"""Queues tickets and says what to publish for them: the same for what waited, was recalled or was held back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from schemas.envelope import Stub
from schemas.ledger import Locked, Move, lock_conversation, move, open_in_conversation
from schemas.states import State
from schemas.tables import tickets
from schemas.ticket import Priority

STUB_COLUMNS = tuple(tickets.c[name] for name in ("id", "delivery", "priority", "tenant", "job", "conversation"))
"""What ``stub_of`` reads."""


def stub_of(row: sa.Row[Any] | Locked, delivery: int | None = None) -> Stub:
    """The message for a ticket's row; of its valid delivery unless told otherwise."""
    return Stub(
        id=row.id,
        delivery=row.delivery if delivery is None else delivery,
        priority=Priority.of_rank(row.priority),
        tenant=row.tenant,
        job=row.job,
        conversation=row.conversation,
    )


def queue(
    connection: Connection, rows: Sequence[Locked], reason: str, now: datetime, due_at: datetime | None = None
) -> list[Stub]:
    """Moves locked tickets to their queue, each as a new delivery; returns what to publish now.

    What has a later ``due_at`` is published by the outbox's sweep then. One that has an earlier ticket of its
    conversation before it is queued but held: nothing is published for it yet.
    """
    moves: list[Move] = []
    due_at = due_at or now
    stubs: list[Stub] = []
    for row in sorted(rows, key=lambda row: (row.tenant, row.conversation, row.sequence)):
        # A ticket that never was on a queue is still at its first delivery.
        delivery = row.delivery if row.state is State.RECEIVED else row.delivery + 1
        due = not row.conversation or _is_head(connection, row)
        changes = {"delivery": delivery, "due_at": due_at if due else None, "published_at": None, "upstream": ""}
        moves.append(Move(ticket=row, after=State.QUEUED, reason=reason, changes=changes))
        if due and due_at <= now:
            stubs.append(stub_of(row, delivery))
    move(connection, moves, now)
    return sorted(stubs, key=lambda stub: (stub.priority.rank, stub.id))


def _is_head(connection: Connection, row: Locked) -> bool:
    lock_conversation(connection, row.tenant, row.conversation)
    head = open_in_conversation(connection, row.tenant, row.conversation)
    return head is None or head["id"] == row.id
