"""How Ticketmill is doing: tickets, queues, workers. Reads only."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from ops.broker_facts import BrokerFacts, broker_facts
from schemas.errors import BrokerUnavailable
from schemas.ledger import reading
from schemas.states import State
from schemas.tables import history, strays, tickets, workers
from schemas.ticket import Priority

RATE_WINDOW_S = 60.0
RATE_PAGE = 2_000
MOST_RATE_PAGES = 100
"""The history has no index on time: it is read backwards from its end, and never further than this."""


class WorkerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as its last heartbeat left it."""

    name: str
    model: str
    slots: int
    started_at: datetime
    seen_at: datetime
    silent_s: float


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """All of it at one moment.

    Attributes:
        tickets: how many, by state and then by priority; what is not there is zero.
        settled_per_s: tickets that reached a final state, a second, over the last minute.
        oldest_queued_s: age of the ticket that has been queued longest; None if none is.
        broker_error: why the broker did not answer; empty if it did.
    """

    at: datetime
    tickets: dict[str, dict[str, int]]
    settled_per_s: float
    oldest_queued_s: float | None
    workers: list[WorkerSeen]
    strays: int
    broker: BrokerFacts | None
    broker_error: str = ""

    def count(self, state: State) -> int:
        """Tickets in a state, whatever their priority."""
        return sum(self.tickets.get(state.value, {}).values())

    @property
    def unfinished(self) -> int:
        """Tickets that have no final state yet."""
        return sum(self.count(state) for state in State if not state.final)


def status(ledger: Engine, broker_url: str, now: datetime) -> Status:
    """The status now.

    Raises:
        LedgerUnavailable: the ledger cannot be read. A broker that does not answer is part of the status.
    """
    with reading(ledger) as connection:
        counted = count_tickets(connection)
        settled = _settled_since(connection, now - timedelta(seconds=RATE_WINDOW_S))
        oldest = _oldest_queued(connection)
        seen = connection.execute(sa.select(workers).order_by(workers.c.name)).mappings().all()
        stray_count = connection.execute(sa.select(sa.func.count()).select_from(strays)).scalar_one()
    broker, broker_error = None, ""
    try:
        broker = broker_facts(broker_url)
    except BrokerUnavailable as error:
        broker_error = str(error)
    return Status(
        at=now,
        tickets=counted,
        settled_per_s=settled / RATE_WINDOW_S,
        oldest_queued_s=None if oldest is None else (now - oldest).total_seconds(),
        workers=[WorkerSeen(**each, silent_s=(now - each["seen_at"]).total_seconds()) for each in seen],
        strays=stray_count,
        broker=broker,
        broker_error=broker_error,
    )


def count_tickets(connection: Connection) -> dict[str, dict[str, int]]:
    """How many tickets, by state and then by priority."""
    counted: dict[str, dict[str, int]] = {}
    grouped = sa.select(tickets.c.state, tickets.c.priority, sa.func.count()).group_by(
        tickets.c.state, tickets.c.priority
    )
    for state, rank, count in connection.execute(grouped.order_by(tickets.c.state, tickets.c.priority)):
        counted.setdefault(state, {})[Priority.of_rank(rank).value] = count
    return counted


def _oldest_queued(connection: Connection) -> datetime | None:
    # One look per priority: each finds its first row in the index, however many are queued. Ids are in order of time.
    first = (
        sa.select(tickets.c.received_at).where(tickets.c.state == State.QUEUED.value).order_by(tickets.c.id).limit(1)
    )
    found = (connection.execute(first.where(tickets.c.priority == each.rank)).scalar() for each in Priority)
    return min((at for at in found if at is not None), default=None)


def _settled_since(connection: Connection, since: datetime) -> int:
    final = {state.value for state in State if state.final}
    page = sa.select(history.c.id, history.c.at, history.c.after).order_by(history.c.id.desc()).limit(RATE_PAGE)
    settled, before = 0, None
    for _ in range(MOST_RATE_PAGES):
        rows = connection.execute(page if before is None else page.where(history.c.id < before)).all()
        settled += sum(row.at >= since and row.after in final for row in rows)
        if len(rows) < RATE_PAGE or rows[-1].at < since:
            break
        before = rows[-1].id
    return settled
