"""Where arriving tickets stand in their conversations: the first open one is published, the others wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from producer.ports import Arrival
from schemas.states import FINAL
from schemas.tables import IN_CONVERSATION, conversations, tickets


@dataclass(frozen=True, slots=True)
class Spot:
    """A ticket's number in its conversation, and whether no earlier one is open."""

    sequence: int
    head: bool


def places(connection: Connection, arrivals: Sequence[Arrival]) -> list[Spot]:
    """One spot an arrival, in order. Locks their conversations until the transaction ends, always in the same order."""
    sizes = Counter(
        (arrival.ticket.tenant, arrival.ticket.conversation) for arrival in arrivals if arrival.ticket.conversation
    )
    if not sizes:
        return [_ALONE] * len(arrivals)
    next_number = _numbered(connection, sizes)
    busy = _busy(connection, sizes)
    spots: list[Spot] = []
    for arrival in arrivals:
        where = (arrival.ticket.tenant, arrival.ticket.conversation)
        if not where[1]:
            spots.append(_ALONE)
            continue
        spots.append(Spot(sequence=next_number[where], head=where not in busy))
        next_number[where] += 1
        if not arrival.state.final:
            busy.add(where)
    return spots


_ALONE = Spot(sequence=0, head=True)


def _numbered(connection: Connection, sizes: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(conversations)
    grown = conversations.c.last_sequence + statement.excluded.last_sequence
    upsert = statement.on_conflict_do_update(index_elements=["tenant", "name"], set_={"last_sequence": grown})
    rows = [{"tenant": tenant, "name": name, "last_sequence": size} for (tenant, name), size in sorted(sizes.items())]
    last = connection.execute(upsert.returning(*conversations.c), rows)
    return {(row.tenant, row.name): row.last_sequence - sizes[row.tenant, row.name] + 1 for row in last}


def _busy(connection: Connection, sizes: Counter[tuple[str, str]]) -> set[tuple[str, str]]:
    by_tenant: dict[str, list[str]] = {}
    for tenant, name in sizes:
        by_tenant.setdefault(tenant, []).append(name)
    busy: set[tuple[str, str]] = set()
    for tenant, names in by_tenant.items():
        for start in range(0, len(names), 500):
            page = {"tenant": tenant, "names": names[start : start + 500]}
            busy.update((tenant, name) for name in connection.scalars(_OPEN, page))
    return busy


_OPEN = (
    sa.select(tickets.c.conversation)
    .where(
        tickets.c.tenant == sa.bindparam("tenant"),
        tickets.c.conversation.in_(sa.bindparam("names", expanding=True)),
        IN_CONVERSATION,
        tickets.c.state.not_in([state.value for state in FINAL]),
    )
    .distinct()
)
