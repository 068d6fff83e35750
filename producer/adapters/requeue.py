"""Dead tickets back on their queues, by a person's order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from producer.adapters.queueing import queue
from schemas.ledger import lock, writing
from schemas.states import State
from schemas.tables import tickets

CHUNK = 500
"""Tickets in one transaction."""


def requeue(engine: Engine, ticket_ids: Sequence[str], who: str, now: datetime) -> list[str]:
    """Queues those of them that are dead, with all their tries before them again; returns their ids.

    What they were is in their history, and so is who did it. The relay publishes them.

    Raises:
        LedgerUnavailable: what was queued before that stays queued.
    """
    done: list[str] = []
    for start in range(0, len(ticket_ids), CHUNK):
        with writing(engine) as connection:
            rows = lock(connection, sorted(set(ticket_ids[start : start + CHUNK]))).values()
            dead = [row for row in rows if row.state is State.DEAD]
            queue(connection, dead, f"queued again by {who}", now)
            ids = [row.id for row in dead]
            connection.execute(sa.update(tickets).where(tickets.c.id.in_(ids)).values(spent=tickets.c.starts))
            done += ids
    return done
