"""The way back for tickets that wait for an upstream: all of them once it works, one to find out whether it does."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from producer.adapters.queueing import queue
from schemas.breaker import Breaker, probing
from schemas.breakers import change_breaker, read_breakers
from schemas.envelope import Stub
from schemas.ledger import lock, reading, writing
from schemas.states import State
from schemas.tables import PARKED, tickets

PREFIX = "upstream:"

PROBE_LASTS = timedelta(seconds=120)
"""A probe that has not come back by then is given to another ticket."""


def unpark(engine: Engine, most: int, now: datetime) -> list[Stub]:
    """Queues again, of each upstream that works, its parked tickets, the most urgent first; and of each that might work
    again one ticket, which then holds the probe. Returns what to publish."""
    stubs: list[Stub] = []
    with reading(engine) as connection:
        known = [each for name, each in read_breakers(connection).items() if name.startswith(PREFIX)]
        back = {each.name: _parked(connection, each, most, now) for each in known}
    for breaker in known:
        ids = back[breaker.name]
        if ids:
            with writing(engine) as connection:
                stubs += _returned(connection, breaker.name, ids, now)
    return stubs


def _parked(connection: Connection, breaker: Breaker, most: int, now: datetime) -> list[str]:
    asked = {"upstream": breaker.name.removeprefix(PREFIX), "now": now}
    if breaker.lets_pass(now):
        return list(connection.scalars(_BACK, asked | {"most": most}))
    if breaker.wants_probe(now):
        return list(connection.scalars(_PROBE, asked))
    return []


def _returned(connection: Connection, name: str, ids: list[str], now: datetime) -> list[Stub]:
    rows = [row for row in lock(connection, ids).values() if row.state is State.PARKED]
    _, breaker = change_breaker(connection, name, now, lambda known: known)
    if breaker.lets_pass(now):
        return queue(connection, rows, f"{name} works again", now)
    if not breaker.wants_probe(now) or not rows:
        return []
    stubs = queue(connection, rows[:1], f"finds out whether {name} works again", now)
    for stub in stubs:  # none where an earlier ticket of its conversation is still open
        change_breaker(connection, name, now, lambda known, who=stub.id: probing(known, who, PROBE_LASTS, now))
    return stubs


_WAITS = sa.and_(
    tickets.c.upstream == sa.bindparam("upstream"),
    PARKED,
    tickets.c.state == State.PARKED.value,
    tickets.c.due_at <= sa.bindparam("now"),
)
_BACK = sa.select(tickets.c.id).where(_WAITS).order_by(tickets.c.priority, tickets.c.id).limit(sa.bindparam("most"))
_PROBE = (
    sa.select(tickets.c.id)
    .where(_WAITS)
    .order_by(tickets.c.delivery, tickets.c.priority, tickets.c.id)  # not the same ticket each time
    .limit(1)
)
