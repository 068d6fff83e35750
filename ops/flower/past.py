"""Tickets of the past as the Celery events they once were, so that Flower shows them whenever it is started."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from schemas.ledger import reading
from schemas.queues import TASK
from schemas.states import State
from schemas.tables import history, tickets

EVENTS: dict[State, tuple[str, ...]] = {
    State.RUNNING: ("task-received", "task-started"),
    State.ANSWERED: ("task-succeeded",),
    State.WAITING: ("task-retried",),
    State.PARKED: ("task-retried",),
    State.DEAD: ("task-failed",),
}
"""What a worker says when a ticket reaches a state. The others are reached where no worker is; docs/states.md."""


def past_events(ledger: Engine, most: int) -> Iterator[dict[str, Any]]:
    """Events of the latest ``most`` tickets, in the order in which they were sent."""
    with reading(ledger) as connection:
        latest = sa.select(tickets.c.id).order_by(tickets.c.id.desc()).limit(most).subquery()
        oldest = connection.execute(sa.select(sa.func.min(latest.c.id))).scalar()
        if oldest is None:
            return
        columns = (history.c.ticket_id, history.c.at, history.c.after, history.c.delivery, history.c.reason)
        changes = sa.select(*columns, history.c.worker).where(history.c.ticket_id >= oldest).order_by(history.c.id)
        rows = connection.execute(changes).all()
    started: dict[str, datetime] = {}
    for row in rows:
        state = State(row.after)
        if state is State.RUNNING:
            started[row.ticket_id] = row.at
        runtime = (row.at - started.get(row.ticket_id, row.at)).total_seconds()
        for kind in EVENTS.get(state, ()):
            yield _event(kind, row, runtime)


def _event(kind: str, row: sa.Row[*tuple[Any, ...]], runtime: float) -> dict[str, Any]:
    at = row.at.timestamp()
    event: dict[str, Any] = {
        "type": kind,
        "uuid": row.ticket_id,
        "hostname": row.worker or "unknown",
        "timestamp": at,
        "local_received": at,
        "clock": 0,
        "pid": 0,
        "utcoffset": 0,
    }
    if kind == "task-received":
        named = {"name": TASK, "args": f"('{row.ticket_id}',)", "kwargs": "{}", "root_id": row.ticket_id}
        return event | named | {"parent_id": None, "retries": row.delivery - 1, "eta": None, "expires": None}
    if kind == "task-succeeded":
        return event | {"result": "answered", "runtime": runtime}
    if kind in ("task-failed", "task-retried"):
        return event | {"exception": row.reason, "traceback": ""}
    return event
