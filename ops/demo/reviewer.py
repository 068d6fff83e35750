"""Somebody must decide what the gate was not sure of: in the demonstration this does, in favour of the customer."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from producer.adapters.queueing import queue
from schemas.ledger import lock, reading, writing
from schemas.states import State
from schemas.tables import tickets


def accept_reviewed(ledger: Engine, now: datetime) -> None:
    """Queues every ticket that waits for a person; the serving process's next sweep publishes it."""
    waiting = sa.select(tickets.c.id).where(tickets.c.state == State.IN_REVIEW.value)
    with reading(ledger) as connection:
        ids = connection.scalars(waiting).all()
    if not ids:
        return
    with writing(ledger) as connection:
        rows = [row for row in lock(connection, ids).values() if row.state is State.IN_REVIEW]
        queue(connection, rows, "accepted by the demonstration's reviewer", now)
