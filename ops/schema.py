"""JSON Schema of everything that crosses a wire, made from the types that decode it."""

from __future__ import annotations

from typing import Any

import msgspec

from producer.web.replies import Refusal
from producer.web.tickets import Accepted, Found, LineVerdict
from schemas.answer import Answer, TicketView
from schemas.envelope import Mark
from schemas.errors import Refused
from schemas.job import Job
from schemas.ticket import NewTicket
from schemas.verdict import Verdict

WIRES: dict[str, type[msgspec.Struct]] = {
    "ticket": NewTicket,
    "ticket-view": TicketView,
    "accepted": Accepted,
    "line-verdict": LineVerdict,
    "found": Found,
    "refusal": Refusal,
    "answer": Answer,
    "job": Job,
    "verdict": Verdict,
    "header": Mark,
}
"""What can be asked for, by name. ``header`` is the ``ticketmill`` header of an admitted ticket's message."""


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of the wire type of that name.

    Raises:
        Refused: no such name; lists the ones there are.
    """
    if name not in WIRES:
        raise Refused("name", f"{name!r} is none of {', '.join(WIRES)}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(WIRES[name])}
