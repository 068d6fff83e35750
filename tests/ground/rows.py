"""Tickets put straight into a ledger, for tests of the ledger itself."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from schemas.ledger import history_row, lock_conversation, new_id, open_in_conversation
from schemas.states import State
from schemas.tables import conversations, history, tickets
from schemas.ticket import Ticket

NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)
_numbers = itertools.count(1)


def take_in(connection: Connection, conversation: str = "", **columns: Any) -> str:
    """A queued ticket at the end of its conversation, due at once if no earlier one is open; its id."""
    ticket_id = new_id(NOW)
    sequence, due = 0, True
    if conversation:
        sequence = lock_conversation(connection, "acme", conversation) + 1
        due = open_in_conversation(connection, "acme", conversation) is None
        grown = sa.update(conversations).where(conversations.c.tenant == "acme", conversations.c.name == conversation)
        connection.execute(grown.values(last_sequence=sequence))
    ticket = Ticket(id=ticket_id, tenant="acme", received_at=NOW, body="Where is it?", conversation=conversation)
    row = {
        "id": ticket_id,
        "tenant": "acme",
        "source": "test",
        "external_id": f"{ticket_id}-{next(_numbers)}",
        "revision": "1",
        "conversation": conversation,
        "sequence": sequence,
        "job": "reply",
        "priority": 2,
        "document": msgspec.json.encode(ticket).decode(),
        "state": State.QUEUED.value,
        "delivery": 1,
        "starts": 0,
        "worker": "",
        "reason": "",
        "received_at": NOW,
        "due_at": NOW if due else None,
    }
    connection.execute(sa.insert(tickets).values(row | columns))
    connection.execute(sa.insert(history).values(history_row(ticket_id, "", State.QUEUED, NOW, 1)))
    return ticket_id
