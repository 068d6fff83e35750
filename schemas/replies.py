"""What the HTTP API answers, besides tickets and their answers."""

from __future__ import annotations

import msgspec

from schemas.answer import TicketView
from schemas.states import State


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong, and with what: a field of the ticket, a header, a query parameter, or ``body``.

    Attributes:
        code: why, in one word that programs can act on, where the gate turned a ticket away; see docs/gate.md.
    """

    field: str
    message: str
    code: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """The body of every answer from 400 on."""

    error: Fault


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A new ticket, as the answer to its sender says it: it is durable now."""

    id: str
    state: State
    duplicate: bool = False


class LineVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one line of many: an id and a state, or an error.

    Attributes:
        retry_after_s: when to send this line again; None if it will never do as it is.
    """

    line: int
    id: str = ""
    state: str = ""
    duplicate: bool = False
    error: Fault | None = None
    retry_after_s: float | None = None


class Found(msgspec.Struct, frozen=True):
    """Tickets known by one external id, every revision, the newest first."""

    tickets: list[TicketView]
