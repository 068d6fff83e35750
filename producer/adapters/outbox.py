"""Tickets on their way to the broker, in SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from producer.adapters.parking import unpark
from producer.adapters.queueing import STUB_COLUMNS, queue, stub_of
from producer.adapters.verdicts import write_verdicts
from producer.ports import Judge, Room
from schemas.bulk import Bulk
from schemas.envelope import Stub
from schemas.ledger import Locked, Move, lock, move, reading, writing
from schemas.states import State
from schemas.tables import tickets
from schemas.ticket import Priority, Ticket
from schemas.verdict import Action


class SqlOutbox:
    """The relay's side of the ledger."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def unpublished(
        self, most: int, due_before: datetime, room: Room | None = None, without: Collection[str] = ()
    ) -> list[Stub]:
        """See Outbox."""
        stubs: list[Stub] = []
        with reading(self._engine) as connection:
            for priority in Priority:
                asked = {"rank": priority.rank, "due_before": due_before, "without": list(without)}
                found: list[sa.Row[Any]] = []
                for tenant in _tenants(connection, priority):
                    wanted = most if room is None else min(most, room(priority, tenant))
                    if wanted > 0:
                        found += connection.execute(_UNPUBLISHED, asked | {"tenant": tenant, "most": wanted})
                found.sort(key=attrgetter("due_at"))
                stubs += map(stub_of, found)
                if room is None and len(stubs) >= most:
                    return stubs[:most]
        return stubs

    def under_way(self, tenants: Collection[str], jobs: Collection[str]) -> dict[str, tuple[str, str]]:
        """See Outbox. Looks through all that is queued: asked now and then."""
        with reading(self._engine) as connection:
            rows = connection.execute(_UNDER_WAY, {"tenants": list(tenants), "jobs": list(jobs)})
            return {row.id: (row.tenant, row.job) for row in rows}

    def still_under_way(self, ticket_ids: Collection[str]) -> list[str]:
        """See Outbox."""
        if not ticket_ids:
            return []
        with reading(self._engine) as connection:
            return list(connection.scalars(_STILL, {"ids": list(ticket_ids)}))

    def published(self, stubs: Sequence[Stub], now: datetime) -> None:
        """Notes that the broker has confirmed these messages."""
        # In the order of their ids, as workers lock them, so that neither waits for the other.
        ordered = sorted(stubs, key=lambda stub: stub.id)
        with writing(self._engine) as connection:
            _mark(connection, [{"ticket": stub.id, "number": stub.delivery, "at": now} for stub in ordered])

    def wake(self, most: int, now: datetime) -> list[Stub]:
        """Queues again what waited until now; returns what to publish."""
        with reading(self._engine) as connection:
            ids = connection.scalars(_DUE, {"now": now, "most": most}).all()
        return self._queue(ids, State.WAITING, "its wait is over", now)

    def unpark(self, most: int, now: datetime) -> list[Stub]:
        """Queues again what waited for an upstream that works again, or might; returns what to publish."""
        return unpark(self._engine, most, now)

    def release_backfill(self, window: int, most: int, judge: Judge, now: datetime) -> list[Stub]:
        """Queues received backfill tickets while fewer than ``window`` of them are queued; returns what to publish.

        What ``judge`` does not accept is rejected, or goes to review.
        """
        with reading(self._engine) as connection:
            room = window - connection.scalars(_BACKFILL_QUEUED, {"most": window}).one()
            documents = connection.scalars(_HELD_BACK, {"most": min(room, most)}).all() if room > 0 else []
        if not documents:
            return []
        held = [_ticket.decode(document) for document in documents]
        verdicts = {ticket.id: (ticket, verdict) for ticket, verdict in zip(held, judge(held), strict=True)}
        with writing(self._engine) as connection:
            locked = lock(connection, list(verdicts)).values()
            rows = {row.id: row for row in locked if row.state is State.RECEIVED}
            write_verdicts(connection, [verdicts[ticket_id] for ticket_id in rows], now)
            stopped: list[Move] = []
            released: list[Locked] = []
            for row in rows.values():
                verdict = verdicts[row.id][1]
                after = _STOPPED.get(verdict.action)
                if after is None:
                    released.append(row)
                else:
                    stopped.append(Move(row, after, "; ".join(verdict.reasons)))
            move(connection, stopped, now)
            return queue(connection, released, "released from the backfill", now)

    def _queue(self, ids: Sequence[str], state: State, reason: str, now: datetime) -> list[Stub]:
        if not ids:
            return []  # found by reading alone: the way to write stays free for those who come in
        with writing(self._engine) as connection:
            rows = [row for row in lock(connection, ids).values() if row.state is state]
            return queue(connection, rows, reason, now)


_STOPPED = {Action.REJECT: State.REJECTED, Action.REVIEW: State.IN_REVIEW}
_ticket = msgspec.json.Decoder(Ticket)


def _tenants(connection: Connection, priority: Priority) -> Iterator[str]:
    """Those who have something in the outbox: a step down the index for each, however much that is."""
    tenant = ""
    while tenant := connection.execute(_NEXT_TENANT, {"rank": priority.rank, "after": tenant}).scalar_one() or "":
        yield tenant


_IN_OUTBOX = sa.and_(tickets.c.published_at.is_(None), tickets.c.due_at.is_not(None))
_NEXT_TENANT = sa.select(sa.func.min(tickets.c.tenant)).where(
    tickets.c.priority == sa.bindparam("rank"), tickets.c.tenant > sa.bindparam("after"), _IN_OUTBOX
)
_UNPUBLISHED = (
    sa.select(*STUB_COLUMNS, tickets.c.due_at)
    .where(
        tickets.c.priority == sa.bindparam("rank"),
        tickets.c.tenant == sa.bindparam("tenant"),
        tickets.c.job.not_in(sa.bindparam("without", expanding=True)),
        tickets.c.published_at.is_(None),
        tickets.c.due_at <= sa.bindparam("due_before"),
        tickets.c.state == State.QUEUED.value,
    )
    .order_by(tickets.c.due_at)
    .limit(sa.bindparam("most"))
)
_ON_THE_WAY = sa.or_(
    tickets.c.state == State.RUNNING.value,
    sa.and_(tickets.c.state == State.QUEUED.value, tickets.c.published_at.is_not(None)),
)
_UNDER_WAY = sa.select(tickets.c.id, tickets.c.tenant, tickets.c.job).where(
    tickets.c.state.in_((State.RUNNING.value, State.QUEUED.value)),
    _ON_THE_WAY,
    sa.or_(
        tickets.c.tenant.in_(sa.bindparam("tenants", expanding=True)),
        tickets.c.job.in_(sa.bindparam("jobs", expanding=True)),
    ),
)
_STILL = sa.select(tickets.c.id).where(tickets.c.id.in_(sa.bindparam("ids", expanding=True)), _ON_THE_WAY)
_DUE = (
    sa.select(tickets.c.id)
    .where(tickets.c.state == State.WAITING.value, tickets.c.due_at <= sa.bindparam("now"))
    .order_by(tickets.c.priority, tickets.c.id)
    .limit(sa.bindparam("most"))
)
_HELD_BACK = (
    sa.select(tickets.c.document)
    .where(tickets.c.state == State.RECEIVED.value)
    .order_by(tickets.c.priority, tickets.c.id)
    .limit(sa.bindparam("most"))
)
_BACKFILL_QUEUED = sa.select(sa.func.count()).select_from(
    sa.select(tickets.c.id)
    .where(tickets.c.state == State.QUEUED.value, tickets.c.priority == Priority.BACKFILL.rank)
    .limit(sa.bindparam("most"))
    .subquery()
)
_mark = Bulk(
    sa.update(tickets)
    .where(tickets.c.id == sa.bindparam("ticket"), tickets.c.delivery == sa.bindparam("number"))
    .values(published_at=sa.bindparam("at"))
)
