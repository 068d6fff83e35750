"""API keys: made, shown once, and known afterwards by their digest alone."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime

import msgspec

from producer.ports import Key, KeyRing
from schemas.errors import Refused
from schemas.review import Role
from schemas.ticket import Name

PREFIX = "tm_"
"""What every key begins with, so that people and scanners recognise one where it should not be."""


def make_key(ring: KeyRing, tenant: str, label: str, now: datetime, role: Role = Role.SENDER) -> tuple[Key, str]:
    """A new key of that tenant: what is noted of it, and the key itself, which nobody can ever show again.

    Raises:
        Refused: the tenant's name or the label cannot be used.
    """
    try:
        msgspec.convert(tenant, Name)
    except msgspec.ValidationError as error:
        raise Refused("tenant", str(error)) from None
    if len(label) > 200 or not label.isprintable():
        raise Refused("label", "must be at most 200 printable characters")
    key = PREFIX + secrets.token_urlsafe(32)
    return ring.add(tenant, label, digest_of(key), now, role), key


def digest_of(key: str) -> str:
    """What is kept of a key. Keys are long and random, so a plain hash cannot be searched back."""
    return hashlib.sha256(key.encode()).hexdigest()
