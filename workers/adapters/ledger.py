"""The worker's side of the ledger, in SQL. A batch costs a few statements, whatever its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from schemas.breaker import Breaker
from schemas.breakers import change_breaker, read_breakers
from schemas.bulk import inserting
from schemas.job import Late
from schemas.ledger import Locked, Move, check_migrated, lock, move, new_id, open_ledger, writing
from schemas.outcome import Again, Answered, Cancelled, Dead, Outcome, Parked, Retry, Returned
from schemas.states import State
from schemas.tables import aliases, answers, attempts, strays, tickets, workers
from schemas.ticket import Priority, Ticket
from workers.adapters.given_before import GivenBefore
from workers.ports import Committed, Delivery, Settlement, Start, Started
from workers.upstreams import PREFIX, News

FORGET_WORKER_AFTER = timedelta(days=1)
"""A worker's row is removed by the next one that starts, once nobody can wonder any more where it went."""

REVOKED = "revoked by remote control before it began"
TOO_LATE = "its deadline passed before a worker could begin"

_ticket_decoder = msgspec.json.Decoder(Ticket)
_IDS = sa.bindparam("ids", expanding=True)
_DOCUMENTS = sa.select(tickets.c.id, tickets.c.document).where(tickets.c.id.in_(_IDS))
_ATTEMPTS = (
    sa.select(attempts.c.ticket_id, attempts.c.outcome)
    .join(tickets, tickets.c.id == attempts.c.ticket_id)
    .where(attempts.c.ticket_id.in_(_IDS), attempts.c.start > tickets.c.spent)
)
_insert_attempts = inserting(attempts, *(column.name for column in attempts.c if column.name != "id"))
_insert_answers = inserting(answers, *answers.c.keys())
_ALIASES = sa.select(aliases.c.ticket_id, aliases.c.task_id).where(aliases.c.ticket_id.in_(_IDS))


UNTRIED = "untried"
"""The outcome of an attempt that did not come to one: an upstream was left alone, or the ticket only probed it."""


def open_sql_ledger(url: str, *, results: bool, breakers: bool = False, given: GivenBefore | None = None) -> SqlLedger:
    """The ledger behind a URL, once it is known to be there and of our version. Arguments as for ``SqlLedger``.

    Raises:
        SettingRefused: the URL is of no database that we know.
        LedgerUnavailable: it does not answer.
        LedgerNotMigrated: it has not the tables that this version works with.
    """
    engine = open_ledger(url)
    check_migrated(engine)
    return SqlLedger(engine, results=results, breakers=breakers, given=given)


def batch_id(now: datetime) -> str:
    """A new one; they sort by time."""
    return new_id(now)


class SqlLedger:
    """See Ledger.

    Args:
        results: somebody stores results, so that other task ids of settled tickets are wanted.
        breakers: the worker wants to know of them with each commit.
        given: finds answers that can be given again; None: none is.
    """

    def __init__(
        self, engine: Engine, *, results: bool = False, breakers: bool = False, given: GivenBefore | None = None
    ) -> None:
        self._engine = engine
        self._results = results
        self._breakers = breakers
        self._given = given

    def commit(
        self,
        settlements: Sequence[Settlement],
        starts: Sequence[Start],
        worker: str,
        now: datetime,
        news: Sequence[News] = (),
    ) -> Committed:
        """See Ledger."""
        stubs = {each.delivery.stub.id: each for each in starts if each.delivery.stub is not None}
        with writing(self._engine) as connection:
            rows = lock(connection, sorted({*stubs, *(each.ticket_id for each in settlements)}))
            answered = self._given.look(connection, settlements, now) if self._given else {}
            settled = _settle(connection, [each.given(answered) for each in settlements], rows, worker, now)
            if not settled.isdisjoint(stubs):  # given back and delivered anew within one batch
                rows |= lock(connection, sorted(settled.intersection(stubs)))
            started, lost, cancelled = _start(connection, stubs.values(), rows, worker, now)
            final = [*settled, *cancelled]
            others = _aliases(connection, final) if self._results and final else {}
            turned = [change_breaker(connection, each.name, now, each.change) for each in news]
            breakers: Mapping[str, Breaker] = read_breakers(connection) if self._breakers else {}
        return Committed(
            settled=settled,
            started=started,
            lost=lost,
            cancelled=cancelled,
            aliases=others,
            answered=answered,
            breakers=breakers,
            turned=[(before, after) for before, after in turned if before.mode is not after.mode],
        )

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

    def beat(self, worker: str, slots: int, model: str, now: datetime) -> None:
        """See Ledger."""
        seen = {"seen_at": now, "slots": slots, "model": model}
        with writing(self._engine) as connection:
            known = connection.execute(sa.update(workers).where(workers.c.name == worker).values(seen))
            if known.rowcount == 0:
                connection.execute(sa.insert(workers).values(seen | {"name": worker, "started_at": now}))
                connection.execute(sa.delete(workers).where(workers.c.seen_at < now - FORGET_WORKER_AFTER))

    def close(self) -> None:
        """Lets go of the database."""
        self._engine.dispose()


def _start(
    connection: Connection, starts: Iterable[Start], rows: Mapping[str, Locked], worker: str, now: datetime
) -> tuple[dict[str, Started], dict[str, int], dict[str, str]]:
    """What began, how often those were lost that did not, and why others never will."""
    valid = [(each, row) for each in starts if (row := _valid(each.delivery, rows)) is not None]
    cancelled = {row.id: REVOKED for each, row in valid if each.revoked and row.state is State.QUEUED}
    moves = [Move(row, State.CANCELLED, reason=REVOKED, worker=worker) for _, row in valid if row.id in cancelled]
    valid = [(each, row) for each, row in valid if row.id not in cancelled]
    known = _attempts_of(connection, [row.id for _, row in valid if row.starts])
    lost = {row.id: row.starts - row.spent - len(known.get(row.id, ())) for _, row in valid}
    ours = [row for each, row in valid if lost[row.id] <= each.lost]
    rules = {row.id: each.late for each, row in valid}
    texts = dict(connection.execute(_DOCUMENTS, {"ids": [row.id for row in ours]}).all()) if ours else {}
    started: dict[str, Started] = {}
    for row in ours:
        start = row.starts + 1
        try:
            ticket = _ticket_decoder.decode(texts[row.id])
        except msgspec.DecodeError as error:
            moves.append(Move(row, State.DEAD, reason=f"its document cannot be read: {error}", worker=worker))
            continue
        if ticket.deadline is not None and ticket.deadline <= now and (late := _late(row, rules[row.id])):
            moves.append(Move(row, late, reason=TOO_LATE, worker=worker, changes=_last(row, now, late)))
            if late is State.DEAD:
                cancelled[row.id] = TOO_LATE
            continue
        reason = "its worker is gone" if row.state is State.RUNNING else ""
        moves.append(Move(row, State.RUNNING, reason=reason, worker=worker, changes={"starts": start}))
        tries = start - row.spent - sum(ended in (State.QUEUED.value, UNTRIED) for ended in known.get(row.id, ()))
        started[row.id] = Started(ticket=ticket, start=start, tries=tries, lost=lost[row.id])
    move(connection, moves, now)
    return started, {row.id: lost[row.id] for each, row in valid if lost[row.id] > each.lost}, cancelled


def _late(row: Locked, rule: Late) -> State | None:
    """Where a ticket goes whose deadline has passed; None if it begins all the same."""
    if row.state is not State.QUEUED or row.spent:
        return None
    if rule is Late.DEAD:
        return State.DEAD
    return State.QUEUED if row.priority < Priority.LOW.rank else None


def _last(row: Locked, now: datetime, late: State) -> Mapping[str, Any]:
    """What makes a late ticket's message another one, on the queue of those that can wait."""
    if late is State.DEAD:
        return {}
    return {"priority": Priority.LOW.rank, "delivery": row.delivery + 1, "due_at": now, "published_at": None}


def _attempts_of(connection: Connection, ticket_ids: Sequence[str]) -> dict[str, list[str]]:
    """The outcomes of what began since it was queued by a person, and has ended in a way that is known."""
    found: dict[str, list[str]] = {}
    if ticket_ids:
        for ticket_id, outcome in connection.execute(_ATTEMPTS, {"ids": list(ticket_ids)}):
            found.setdefault(ticket_id, []).append(outcome)
    return found


def _aliases(connection: Connection, ticket_ids: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for ticket_id, task_id in connection.execute(_ALIASES, {"ids": list(ticket_ids)}):
        found.setdefault(ticket_id, []).append(task_id)
    return found


def _valid(delivery: Delivery, rows: Mapping[str, Locked]) -> Locked | None:
    """The ticket, if the ledger expects this delivery: it is queued, or runs at a worker that has lost the message."""
    row = rows.get(delivery.stub.id) if delivery.stub else None
    if row is None or delivery.stub is None or row.delivery != delivery.stub.delivery:
        return None
    expected = row.state is State.QUEUED or (row.state is State.RUNNING and delivery.redelivered)
    return row if expected else None


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
    for upstream in {each.outcome.upstream for each, _ in counted if isinstance(each.outcome, Parked)}:
        change_breaker(connection, f"{PREFIX}{upstream}", now, lambda known: known)  # whoever unparks finds it there
    move(connection, moves, now)
    _insert_attempts(connection, [_attempt(each, made, worker) for (each, _), made in zip(counted, moves, strict=True)])
    answered = [
        {
            "ticket_id": each.ticket_id,
            "at": now,
            "document": msgspec.json.encode(each.outcome.answer).decode(),
            "asked": each.outcome.asked.digest if each.outcome.asked else "",
            "kin": each.outcome.asked.kin if each.outcome.asked else "",
            "vector": (each.outcome.asked.vector or None) if each.outcome.asked else None,
        }
        for each, _ in counted
        if isinstance(each.outcome, Answered)
    ]
    _insert_answers(connection, answered)
    return frozenset(each.ticket_id for each, _ in counted)


def _move(row: Locked, outcome: Outcome, worker: str, now: datetime) -> Move:
    match outcome:
        case Answered():
            return Move(row, State.ANSWERED, worker=worker)
        case Again(_, reason):
            return Move(row, State.RUNNING, reason=reason, worker=worker, changes={"starts": row.starts + 1})
        case Retry(due_at, reason):
            due = {"due_at": due_at, "published_at": None}
            return Move(row, State.WAITING, reason=reason, worker=worker, changes=due)
        case Returned(reason):
            anew = {"delivery": row.delivery + 1, "due_at": now, "published_at": None}
            return Move(row, State.QUEUED, reason=reason, worker=worker, changes=anew)
        case Parked(reason, upstream, back_at):
            back = {"due_at": back_at, "published_at": None, "upstream": upstream}
            return Move(row, State.PARKED, reason=reason, worker=worker, changes=back)
        case Cancelled(reason):
            return Move(row, State.CANCELLED, reason=reason, worker=worker)
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
        "outcome": made.after.value if getattr(settlement.outcome, "tried", True) else UNTRIED,
        "error": made.reason,
    }
