"""A ticket: what a customer sent, and how urgent it is."""

from __future__ import annotations

import codecs
import json
import math
import operator
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from schemas.errors import Refused
from schemas.refusal import explained, printable

MAX_BODY_CHARS = 100_000
"""Longest body taken, in characters. Far above any ticket a person writes; one message can never fill a broker."""

MAX_METADATA_CHARS = 4_096
"""Longest metadata taken, as JSON text."""


MAX_INTEGER = 2**63 - 1
"""Largest whole number in metadata: more than this and other programs' JSON readers round it."""


class Priority(StrEnum):
    """How soon a ticket is due a slot: one scale, the first is served first."""

    URGENT = "urgent"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    BACKFILL = "backfill"

    @property
    def rank(self) -> int:
        """0 for urgent up to 4 for backfill: what the ledger stores and sorts by."""
        return _RANK[self]

    @classmethod
    def of_rank(cls, rank: int) -> Priority:
        """The priority stored as ``rank``."""
        return _BY_RANK[rank]


_BY_RANK = tuple(Priority)
_RANK = {priority: rank for rank, priority in enumerate(_BY_RANK)}

# Means the same to Python and to JSON Schema: in Python a bare $ would let a last line break through.
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$(?!\n)")]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
OptionalKey = Annotated[str, msgspec.Meta(max_length=200)]
Scalar = str | int | float | bool | None


class NewTicket(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A ticket as a producer sends it, before it has an id.

    Two with the same tenant, source, external id and revision are the same ticket. Where ``external_id`` is
    left empty the ticket gets its own id as external id, and so is never taken for another.

    Attributes:
        time_limit: the longest it may be in a slot, in seconds, where that is less than the worker's own limit.
    """

    body: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BODY_CHARS)]
    subject: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    source: Name = "api"
    external_id: OptionalKey = ""
    revision: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "1"
    conversation: OptionalKey = ""
    customer: OptionalKey = ""
    language: Annotated[str, msgspec.Meta(max_length=35)] = ""
    priority: Priority = Priority.NORMAL
    region: Annotated[str, msgspec.Meta(max_length=64)] = ""
    job: Name = "reply"
    deadline: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    time_limit: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None
    metadata: dict[Key, Scalar] = {}


class Ticket(NewTicket, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A ticket that intake has given an id and a tenant."""

    id: str
    tenant: Name
    received_at: datetime


_IDENTIFIERS = ("source", "external_id", "revision", "conversation", "customer", "language", "region", "job")
_identifiers = operator.attrgetter(*_IDENTIFIERS)
_decoder = msgspec.json.Decoder(NewTicket)


def decode_new_ticket(raw: bytes | str) -> NewTicket:
    """The ticket in a JSON object, with or without a byte order mark before it.

    Raises:
        Refused: naming the field, for malformed JSON, wrong types, unknown fields, sizes over their limit,
            NUL or lone surrogates.
    """
    try:
        ticket = _decoder.decode(raw.removeprefix(codecs.BOM_UTF8) if isinstance(raw, bytes) else raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _lone_surrogate(raw) or _refused(error) from None
    return checked(ticket)


def new_ticket_from(fields: object) -> NewTicket:
    """The same for fields already decoded (a CSV row, a Celery message's arguments)."""
    if not _surely_whole(fields) and (broken := _broken_text(fields, "")) is not None:
        raise Refused(broken or "ticket", NO_CHARACTER)
    try:
        ticket = msgspec.convert(fields, NewTicket)
    except msgspec.ValidationError as error:
        raise _refused(error) from None
    return checked(ticket)


def checked(ticket: NewTicket) -> NewTicket:
    """The ticket unchanged, once what types cannot say has been checked too."""
    if not "".join(_identifiers(ticket)).isprintable():
        field = next(name for name in _IDENTIFIERS if not getattr(ticket, name).isprintable())
        raise Refused(field, "holds a control, separator or unassigned character; an identifier may not")
    _whole("subject", ticket.subject)
    _whole("body", ticket.body)
    if not ticket.body.strip():
        raise Refused("body", "is blank; a ticket needs some text")
    _check_metadata(ticket.metadata)
    if ticket.deadline is not None and not 1970 < ticket.deadline.year < 9999:
        raise Refused("deadline", "must be a year from 1971 to 9998")
    return ticket


def _check_metadata(metadata: dict[str, Scalar]) -> None:
    for name, value in metadata.items():
        field = f"metadata.{printable(name)}"
        _whole(field, name)
        if isinstance(value, str):
            _whole(field, value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise Refused(field, "is no finite number; JSON has no word for it")
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise Refused(field, f"is over {MAX_INTEGER}; send larger numbers as text")
    if metadata and len(msgspec.json.encode(metadata)) > MAX_METADATA_CHARS:
        raise Refused("metadata", f"is over {MAX_METADATA_CHARS} characters as JSON")


NO_CHARACTER = "holds a lone surrogate, which is no character; send valid Unicode"


def _whole(field: str, text: str) -> None:
    if "\x00" in text:
        raise Refused(field, "holds a NUL character; remove it")
    if not _encodable(text):
        raise Refused(field, NO_CHARACTER)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refused(error: Exception) -> Refused:
    field, why = explained(error, NewTicket, "a field of a ticket")
    return Refused(field.removesuffix("[...]") or "ticket", why)


def _lone_surrogate(raw: bytes | str) -> Refused | None:
    """Why JSON that only looks malformed is refused: the decoder cannot say that a surrogate stands alone, nor where.

    Asked only of what was refused already.
    """
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    broken = _broken_text(fields, "")
    return None if broken is None else Refused(broken or "ticket", NO_CHARACTER)


def _surely_whole(fields: object) -> bool:
    """No text in there holds a lone surrogate. Where this is not sure the long way round finds the place, if any."""
    try:
        msgspec.json.encode(fields)
    except (UnicodeError, TypeError, ValueError, RecursionError):
        return False
    return True


def _broken_text(value: object, path: str) -> str | None:
    """Path of the first text with a lone surrogate, no deeper than a ticket goes; None if there is none."""
    if isinstance(value, str):
        return None if _encodable(value) else path
    if not isinstance(value, dict) or path.count(".") > 1:
        return None
    for name, inner in value.items():
        below = f"{path}.{printable(str(name))}".lstrip(".")
        if isinstance(name, str) and not _encodable(name):
            return below
        if (found := _broken_text(inner, below)) is not None:
            return found
    return None
