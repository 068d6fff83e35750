"""Which tickets are in the ledger already: what makes it safe to send one twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from producer.ports import Arrival
from schemas.states import State
from schemas.tables import tickets
from schemas.ticket import Ticket

PAGE = 500
"""Names looked up in one query: well under every database's limit on parameters."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A ticket that was here before."""

    id: str
    state: State


class Known:
    """The tickets that these arrivals could be repeats of, and those noted since.

    An arrival without a name from outside (external id or task id) can be no repeat: it costs no lookup.
    """

    def __init__(self, connection: Connection, arrivals: Sequence[Arrival]) -> None:
        self._by_key: dict[tuple[str, str, str, str], Remembered] = {}
        self._ids: set[str] = set()
        groups: dict[tuple[str, str, str], list[str]] = {}
        task_ids: list[str] = []
        for arrival in arrivals:
            ticket = arrival.ticket
            if arrival.task_id:
                task_ids.append(arrival.task_id)
            if _can_repeat(arrival):
                groups.setdefault((ticket.tenant, ticket.source, ticket.revision), []).append(ticket.external_id)
        for (tenant, source, revision), names in groups.items():
            for page in _pages(names):
                named = {"tenant": tenant, "source": source, "revision": revision, "names": page}
                for row in connection.execute(_BY_KEY, named):
                    self._by_key[tenant, source, row.external_id, revision] = Remembered(row.id, State(row.state))
        for page in _pages(task_ids):
            self._ids.update(connection.scalars(_BY_ID, {"ids": page}))

    def get(self, arrival: Arrival) -> Remembered | None:
        """The ticket that this one is a repeat of, if any."""
        return self._by_key.get(_key(arrival.ticket)) if _can_repeat(arrival) else None

    def taken(self, ticket_id: str) -> bool:
        """Some ticket that could be meant has this id."""
        return ticket_id in self._ids

    def add(self, arrival: Arrival) -> None:
        """Notes a ticket that is written now."""
        if _can_repeat(arrival):
            self._by_key[_key(arrival.ticket)] = Remembered(arrival.ticket.id, arrival.state)
            self._ids.add(arrival.ticket.id)


_BY_KEY = sa.select(tickets.c.id, tickets.c.state, tickets.c.external_id).where(
    tickets.c.tenant == sa.bindparam("tenant"),
    tickets.c.source == sa.bindparam("source"),
    tickets.c.revision == sa.bindparam("revision"),
    tickets.c.external_id.in_(sa.bindparam("names", expanding=True)),
)
_BY_ID = sa.select(tickets.c.id).where(tickets.c.id.in_(sa.bindparam("ids", expanding=True)))


def _can_repeat(arrival: Arrival) -> bool:
    # Without a name from outside its external id is its own new id, which no other ticket can have.
    return bool(arrival.task_id) or arrival.ticket.external_id != arrival.ticket.id


def _key(ticket: Ticket) -> tuple[str, str, str, str]:
    return ticket.tenant, ticket.source, ticket.external_id, ticket.revision


def _pages(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[start : start + PAGE] for start in range(0, len(names), PAGE)]
