"""JSON Schema of everything that crosses a wire, made from the types that decode it."""

from __future__ import annotations

from typing import Any

import msgspec

from producer.ports import Receipt
from schemas.answer import Answer, TicketView
from schemas.envelope import Mark
from schemas.errors import Refused
from schemas.job import Job
from schemas.ticket import NewTicket
from schemas.verdict import Verdict

WIRES: dict[str, type[msgspec.Struct]] = {
    "ticket": NewTicket,
    "ticket-view": TicketView,
    "receipt": Receipt,
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
    schema = msgspec.json.schema(WIRES[name])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_ecma(schema)}


def _ecma(schema: Any) -> Any:
    """Patterns with the anchors that JSON Schema's dialect of regular expressions knows."""
    if isinstance(schema, dict):
        return {
            key: value.replace(r"\A", "^").replace(r"\Z", "$")
            if key == "pattern" and isinstance(value, str)
            else _ecma(value)
            for key, value in schema.items()
        }
    return [_ecma(each) for each in schema] if isinstance(schema, list) else schema
