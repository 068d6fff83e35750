"""A ticket: what a customer sent, and how urgent it is."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from schemas.errors import Refused

MAX_BODY_CHARS = 100_000
"""Longest body taken, in characters. Far above any ticket a person writes; one message can never fill a broker."""

MAX_METADATA_CHARS = 4_096
"""Longest metadata taken, as JSON text."""


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

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9][A-Za-z0-9._:-]*\Z")]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
OptionalKey = Annotated[str, msgspec.Meta(max_length=200)]
Scalar = str | int | float | bool | None


class NewTicket(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ticket as a producer sends it, before it has an id.

    Two with the same tenant, source, external id and revision are the same ticket. Where ``external_id`` is
    left empty the ticket gets its own id as external id, and so is never taken for another.
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
    metadata: dict[Key, Scalar] = {}


class Ticket(NewTicket, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ticket that intake has given an id and a tenant."""

    id: str
    tenant: Name
    received_at: datetime


_IDENTIFIERS = ("source", "external_id", "revision", "conversation", "customer", "language", "region", "job")
_decoder = msgspec.json.Decoder(NewTicket)


def decode_new_ticket(raw: bytes | str) -> NewTicket:
    """The ticket in a JSON object.

    Raises:
        Refused: naming the field, for malformed JSON, wrong types, unknown fields, sizes over their limit,
            NUL or lone surrogates.
    """
    try:
        ticket = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise refusal(error) from None
    return checked(ticket)


def new_ticket_from(fields: object) -> NewTicket:
    """The same for fields already decoded (a CSV row, a Celery message's arguments)."""
    try:
        ticket = msgspec.convert(fields, NewTicket)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise refusal(error) from None
    return checked(ticket)


def checked(ticket: NewTicket) -> NewTicket:
    """The ticket unchanged, once what types cannot say has been checked too."""
    for field in _IDENTIFIERS:
        identifier: str = getattr(ticket, field)
        if not identifier.isprintable():
            raise Refused(field, "holds a control, separator or unassigned character; an identifier may not")
    _whole("subject", ticket.subject)
    _whole("body", ticket.body)
    if not ticket.body.strip():
        raise Refused("body", "is blank; a ticket needs some text")
    for name, value in ticket.metadata.items():
        _whole("metadata", name)
        if isinstance(value, str):
            _whole(f"metadata.{name}", value)
    if ticket.metadata and len(msgspec.json.encode(ticket.metadata)) > MAX_METADATA_CHARS:
        raise Refused("metadata", f"is over {MAX_METADATA_CHARS} characters as JSON")
    return ticket


def _whole(field: str, text: str) -> None:
    if "\x00" in text:
        raise Refused(field, "holds a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(field, "holds a lone surrogate, which is no character; send valid Unicode") from None


def refusal(error: Exception) -> Refused:
    """A decoder's complaint with its field taken out of the prose."""
    why, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".") or "ticket"
    unknown = "Object contains unknown field `"
    if why.startswith(unknown):
        name = why.removeprefix(unknown).rstrip("`")
        return Refused(name if field == "ticket" else f"{field}.{name}", "is not a field of a ticket")
    missing = "Object missing required field `"
    if why.startswith(missing):
        return Refused(why.removeprefix(missing).rstrip("`"), "is missing")
    return Refused(field, why)
