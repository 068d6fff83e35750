"""What the ledger believes to be on its way, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError

from producer.adapters.holding import held_too_long, holding_conversations
from producer.adapters.queueing import STUB_COLUMNS, queue, stub_of
from schemas.envelope import Stub
from schemas.ledger import lock, reading, writing
from schemas.states import State
from schemas.tables import duties, tickets, workers
from schemas.ticket import Priority


class SqlBooks:
    """The reconciler's side of the ledger."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def take_duty(self, name: str, holder: str, until: datetime, now: datetime) -> bool:
        """Makes the duty ``holder``'s until then. False while it is somebody else's."""
        free = sa.or_(duties.c.holder == holder, duties.c.until < now)
        taking = sa.update(duties).where(duties.c.name == name, free).values(holder=holder, until=until)
        try:
            with writing(self._engine) as connection:
                if connection.execute(taking).rowcount:
                    return True
                if connection.scalars(sa.select(duties.c.name).where(duties.c.name == name)).one_or_none():
                    return False
                connection.execute(sa.insert(duties).values(name=name, holder=holder, until=until))
                return True
        except IntegrityError:
            return False  # two wanted it for the first time, and the other was first

    def drop_duty(self, name: str, holder: str) -> None:
        """Leaves a duty to whoever wants it next."""
        with writing(self._engine) as connection:
            connection.execute(sa.delete(duties).where(duties.c.name == name, duties.c.holder == holder))

    def recall(self, silent_since: datetime, most: int, now: datetime) -> list[Stub]:
        """Queues again, as new deliveries, running tickets whose worker has not been seen since; what to publish."""
        with reading(self._engine) as connection:
            found = connection.execute(_LEFT_RUNNING, {"silent_since": silent_since, "most": most})
            worker_of = {row.id: row.worker for row in found}
        if not worker_of:
            return []
        with writing(self._engine) as connection:
            left = [
                row
                for row in lock(connection, list(worker_of)).values()
                if row.state is State.RUNNING and row.worker == worker_of[row.id]
            ]
            return queue(connection, left, "its worker has gone silent", now)

    def let_pass(self, held_since: datetime, most: int, now: datetime) -> int:
        """Puts into the outbox what has been held since then by earlier tickets that are in review or parked."""
        passed = 0
        with reading(self._engine) as connection:
            found = [
                (tenant, names, ids)
                for tenant, names in holding_conversations(connection)
                if (ids := held_too_long(connection, tenant, names, held_since))
            ]
        for tenant, names, ids in found:
            with writing(self._engine) as connection:
                lock(connection, ids)
                # Asked again under the lock of their conversations: what held them may just have been decided.
                still = set(held_too_long(connection, tenant, names, held_since)).intersection(ids)
                chosen = sorted(still)[: most - passed]
                connection.execute(sa.update(tickets).where(tickets.c.id.in_(chosen)).values(due_at=now))
            passed += len(chosen)
            if passed == most:
                break
        return passed

    def queued(self, published_before: datetime | None = None) -> Mapping[Priority, int]:
        """See Books. The index answers the first question alone; the second looks at every ticket."""
        counting = _QUEUED if published_before is None else _QUEUED.where(tickets.c.published_at < published_before)
        with reading(self._engine) as connection:
            return {Priority.of_rank(row.priority): row.tickets for row in connection.execute(counting)}

    def suspects(self, priority: Priority, published_before: datetime, after_id: str, most: int) -> list[Stub]:
        """Some of those, by id: a page that begins after ``after_id``."""
        asked = {"rank": priority.rank, "published_before": published_before, "after_id": after_id, "most": most}
        with reading(self._engine) as connection:
            return [stub_of(row) for row in connection.execute(_SUSPECTS, asked)]

    def forget(self, stubs: Sequence[Stub]) -> int:
        """Takes back that these were published, where they are still queued; the outbox then holds them again."""
        if not stubs:
            return 0
        delivery_of = {stub.id: stub.delivery for stub in stubs}
        with writing(self._engine) as connection:
            rows = lock(connection, list(delivery_of)).values()
            gone = [row.id for row in rows if row.state is State.QUEUED and row.delivery == delivery_of[row.id]]
            connection.execute(sa.update(tickets).where(tickets.c.id.in_(gone)).values(published_at=None))
        return len(gone)


_LEFT_RUNNING = (
    sa.select(tickets.c.id, tickets.c.worker)
    .outerjoin(workers, workers.c.name == tickets.c.worker)
    .where(
        tickets.c.state == State.RUNNING.value,
        sa.or_(workers.c.seen_at.is_(None), workers.c.seen_at < sa.bindparam("silent_since")),
    )
    .order_by(tickets.c.priority, tickets.c.id)
    .limit(sa.bindparam("most"))
)
_QUEUED = (
    sa.select(tickets.c.priority, sa.func.count().label("tickets"))
    .where(tickets.c.state == State.QUEUED.value)
    .group_by(tickets.c.priority)
)
_SUSPECTS = (
    sa.select(*STUB_COLUMNS)
    .where(
        tickets.c.state == State.QUEUED.value,
        tickets.c.priority == sa.bindparam("rank"),
        tickets.c.id > sa.bindparam("after_id"),
        tickets.c.published_at < sa.bindparam("published_before"),
    )
    .order_by(tickets.c.id)
    .limit(sa.bindparam("most"))
)
