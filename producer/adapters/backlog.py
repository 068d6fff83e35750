"""What waits and how much has ended, in SQL: cheap enough to ask every second."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from schemas.ledger import reading
from schemas.states import State
from schemas.tables import attempts, tickets
from schemas.ticket import Priority

MOST = 200_000
"""Tickets of one priority are counted as far as this."""


def read_backlog(engine: Engine) -> tuple[dict[Priority, int], int]:
    """Queued tickets by priority, and attempts ever."""
    with reading(engine) as connection:
        queued = {priority: connection.execute(_QUEUED, {"rank": priority.rank}).scalar_one() for priority in Priority}
        return queued, connection.execute(_ENDED).scalar_one() or 0


_QUEUED = sa.select(sa.func.count()).select_from(
    sa.select(tickets.c.id)
    .where(tickets.c.state == State.QUEUED.value, tickets.c.priority == sa.bindparam("rank"))
    .limit(MOST)
    .subquery()
)
_ENDED = sa.select(sa.func.max(attempts.c.id))
