"""The worker's side of the ledger, in SQL. A batch costs a few statements, whatever its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from schemas.ledger import Locked, Move, lock, move, new_id, reading, writing
from schemas.outcome import Answered, Dead, Outcome, Parked, Retry, Returned
from schemas.states import State
from schemas.tables import aliases, answers, attempts, strays, tickets, workers
from schemas.ticket import Ticket
from workers.ports import Committed, Delivery, Settlement, Started

FORGET_WORKER_AFTER = timedelta(days=1)
"""A worker's row is removed by the next one that starts, once nobody can wonder any more where it went."""

_ticket_decoder = msgspec.json.Decoder(Ticket)
_IDS = sa.bindparam("ids", expanding=True)
_DOCUMENTS = sa.select(tickets.c.id, tickets.c.document).where(tickets.c.id.in_(_IDS))
_GIVEN_BACK = (
    sa.select(attempts.c.ticket_id, sa.func.count())
    .where(attempts.c.ticket_id.in_(_IDS), attempts.c.outcome == State.QUEUED.value)
    .group_by(attempts.c.ticket_id)
)
_ALIASES = sa.select(aliases.c.ticket_id, aliases.c.task_id).where(aliases.c.ticket_id.in_(_IDS))


class SqlLedger:
    """See Ledger."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def commit(
        self, settlements: Sequence[Settlement], deliveries: Sequence[Delivery], worker: str, now: datetime
    ) -> Committed:
        """See Ledger."""
        stubs = {each.stub.id: each for each in deliveries if each.stub is not None}
        with writing(self._engine) as connection:
            rows = lock(connection, sorted({*stubs, *(each.ticket_id for each in settlements)}))
            settled = _settle(connection, settlements, rows, worker, now)
            if not settled.isdisjoint(stubs):  # given back and delivered anew within one batch
                rows |= lock(connection, sorted(settled.intersection(stubs)))
            started = _start(connection, stubs.values(), rows, worker, now)
        return Committed(settled=settled, started=started)

    def stray(self, deliveries: Sequence[Delivery], reason: str, now: datetime) -> None:
        """See Ledger."""
        rows = [
            {
                "id": new_id(now),
                "at": now,
                "queue": each.queue,
                "reason": reason,
                "headers": each.headers,
                "body": each.body,
            }
            for each in deliveries
        ]
        with writing(self._engine) as connection:
            connection.execute(sa.insert(strays), rows)

    def aliases(self, ticket_ids: Sequence[str]) -> Mapping[str, list[str]]:
        """See Ledger."""
        found: dict[str, list[str]] = {}
        with reading(self._engine) as connection:
            for ticket_id, task_id in connection.execute(_ALIASES, {"ids": list(ticket_ids)}):
                found.setdefault(ticket_id, []).append(task_id)
        return found

    def beat(self, worker: str, slots: int, model: str, now: datetime) -> None:
        """See Ledger."""
        seen = {"seen_at": now, "slots": slots, "model": model}
        with writing(self._engine) as connection:
            known = connection.execute(sa.update(workers).where(workers.c.name == worker).values(seen))
            if known.rowcount == 0:
                connection.execute(sa.insert(workers).values(seen | {"name": worker, "started_at": now}))
                connection.execute(sa.delete(workers).where(workers.c.seen_at < now - FORGET_WORKER_AFTER))


def _start(
    connection: Connection, deliveries: Iterable[Delivery], rows: Mapping[str, Locked], worker: str, now: datetime
) -> dict[str, Started]:
    ours = [rows[each.stub.id] for each in deliveries if each.stub and _valid(each, rows.get(each.stub.id))]
    if not ours:
        return {}
    changes = [
        Move(
            row,
            State.RUNNING,
            reason="its worker is gone" if row.state is State.RUNNING else "",
            worker=worker,
            changes={"starts": row.starts + 1},
        )
        for row in ours
    ]
    move(connection, changes, now)
    again = [row.id for row in ours if row.starts]
    given_back: dict[str, int] = {}
    if again:
        given_back = dict(connection.execute(_GIVEN_BACK, {"ids": again}).all())
    texts = dict(connection.execute(_DOCUMENTS, {"ids": [row.id for row in ours]}).all())
    return {
        row.id: Started(
            ticket=_ticket_decoder.decode(texts[row.id]),
            start=row.starts + 1,
            tries=row.starts + 1 - given_back.get(row.id, 0),
        )
        for row in ours
    }


def _valid(delivery: Delivery, row: Locked | None) -> bool:
    """The ledger expects this delivery: the ticket is queued, or runs at a worker that has lost the message."""
    if row is None or delivery.stub is None or row.delivery != delivery.stub.delivery:
        return False
    return row.state is State.QUEUED or (row.state is State.RUNNING and delivery.redelivered)


def _settle(
    connection: Connection, settlements: Sequence[Settlement], rows: Mapping[str, Locked], worker: str, now: datetime
) -> frozenset[str]:
    counted: list[tuple[Settlement, Locked]] = []
    for each in settlements:
        row = rows.get(each.ticket_id)
        if row is not None and (row.state, row.worker, row.starts) == (State.RUNNING, worker, each.start):
            counted.append((each, row))
    if not counted:
        return frozenset()
    moves = [_move(row, each.outcome, worker, now) for each, row in counted]
    move(connection, moves, now)
    connection.execute(
        sa.insert(attempts),
        [_attempt(each, made, worker) for (each, _), made in zip(counted, moves, strict=True)],
    )
    answered = [
        {"ticket_id": each.ticket_id, "at": now, "document": msgspec.json.encode(each.outcome.answer).decode()}
        for each, _ in counted
        if isinstance(each.outcome, Answered)
    ]
    if answered:
        connection.execute(sa.insert(answers), answered)
    return frozenset(each.ticket_id for each, _ in counted)


def _move(row: Locked, outcome: Outcome, worker: str, now: datetime) -> Move:
    match outcome:
        case Answered():
            return Move(row, State.ANSWERED, worker=worker)
        case Retry(due_at, reason):
            due = {"due_at": due_at, "published_at": None}
            return Move(row, State.WAITING, reason=reason, worker=worker, changes=due)
        case Returned(reason):
            anew = {"delivery": row.delivery + 1, "due_at": now, "published_at": None}
            return Move(row, State.QUEUED, reason=reason, worker=worker, changes=anew)
        case Parked(reason):
            return Move(row, State.PARKED, reason=reason, worker=worker)
        case Dead(reason):
            return Move(row, State.DEAD, reason=reason, worker=worker)


def _attempt(settlement: Settlement, made: Move, worker: str) -> dict[str, Any]:
    return {
        "ticket_id": settlement.ticket_id,
        "start": settlement.start,
        "started_at": settlement.started_at,
        "ended_at": settlement.ended_at,
        "worker": worker,
        "batch": settlement.batch,
        "batch_size": settlement.batch_size,
        "outcome": made.after.value,
        "error": made.reason,
    }
