"""What waits behind a ticket that is in review or parked, in the same conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from schemas.states import FINAL, State
from schemas.tables import IN_CONVERSATION, history, tickets

HOLDING = (State.IN_REVIEW, State.PARKED)

PAGE = 500
"""Conversations looked at in one query."""


def holding_conversations(connection: Connection) -> Iterator[tuple[str, list[str]]]:
    """Tenants, each with names of conversations of which some ticket is in review or parked; a page at a time."""
    found = connection.execute(_HOLDING_CONVERSATIONS).all()
    for tenant, rows in groupby(found, key=attrgetter("tenant")):
        names = [row.conversation for row in rows]
        for start in range(0, len(names), PAGE):
            yield tenant, names[start : start + PAGE]


def held_too_long(connection: Connection, tenant: str, names: Sequence[str], held_since: datetime) -> list[str]:
    """Of each conversation the ticket that would be next without those that hold, if it has been queued since then."""
    open_ones = connection.execute(_OPEN, {"tenant": tenant, "names": list(names)}).all()
    next_ones: list[str] = []
    for _, rows in groupby(open_ones, key=attrgetter("conversation")):
        in_order = list(rows)
        first = next((row for row in in_order if row.state not in HOLDING), None)
        if first is not None and first is not in_order[0] and first.state == State.QUEUED and first.due_at is None:
            next_ones.append(first.id)
    return list(connection.scalars(_QUEUED_SINCE, {"ids": next_ones, "held_since": held_since}))


_HOLDING_CONVERSATIONS = (
    sa.select(tickets.c.tenant, tickets.c.conversation)
    .distinct()
    .where(tickets.c.state.in_([state.value for state in HOLDING]), tickets.c.conversation != "")
    .order_by(tickets.c.tenant, tickets.c.conversation)
)
_OPEN = (
    sa.select(tickets.c.id, tickets.c.conversation, tickets.c.state, tickets.c.due_at)
    .where(
        tickets.c.tenant == sa.bindparam("tenant"),
        tickets.c.conversation.in_(sa.bindparam("names", expanding=True)),
        IN_CONVERSATION,
        tickets.c.state.not_in([state.value for state in FINAL]),
    )
    .order_by(tickets.c.conversation, tickets.c.sequence)
)
_QUEUED_SINCE = (
    sa.select(history.c.ticket_id)
    .distinct()
    .where(
        history.c.ticket_id.in_(sa.bindparam("ids", expanding=True)),
        history.c.after == State.QUEUED.value,
        history.c.at <= sa.bindparam("held_since"),
    )
)
