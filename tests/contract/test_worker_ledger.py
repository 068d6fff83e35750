"""What the settler may rely on, on every database."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
import sqlalchemy as sa

from schemas.answer import Answer
from schemas.envelope import Stub
from schemas.errors import LedgerUnavailable
from schemas.ledger import reading, writing
from schemas.outcome import Answered, Dead, Outcome, Parked, Retry, Returned
from schemas.tables import aliases, strays, tickets, workers
from tests.contract.tickets import NOON, delivery_of, put, row, rows_of, states
from tests.ground.ledgers import TestLedger
from workers.adapters.ledger import SqlLedger
from workers.ports import Delivery, Settlement, Start

ME, OTHER = "celery@here#1", "celery@there#2"
LATER = NOON + timedelta(seconds=5)
ANSWER = Answer(text='It is on its way. \x00\u2028 "quoted"', model="m", data={"category": "delivery"}, batch="b1")


@pytest.fixture
def worker(ledger: TestLedger) -> SqlLedger:
    return SqlLedger(ledger.engine)


def settlement(stub: Stub, outcome: Outcome, start: int = 1) -> Settlement:
    return Settlement(
        ticket_id=stub.id,
        start=start,
        outcome=outcome,
        batch="b1",
        batch_size=8,
        started_at=NOON,
        ended_at=LATER,
    )


def start_of(stub: Stub, *, redelivered: bool = False, lost: int = 9) -> Start:
    return Start(delivery=delivery_of(stub, redelivered=redelivered), lost=lost)


def start(worker: SqlLedger, *stubs: Stub, who: str = ME, redelivered: bool = False) -> list[str]:
    starts = [start_of(each, redelivered=redelivered) for each in stubs]
    return list(worker.commit([], starts, who, NOON).started)


def test_a_queued_ticket_runs_and_comes_with_its_text(ledger: TestLedger, worker: SqlLedger) -> None:
    (stub,) = put(ledger.engine, body="Wo ist mein Paket? 我的包裹在哪里")
    started = worker.commit([], [start_of(stub)], ME, NOON).started[stub.id]
    assert (started.ticket.body, started.start, started.tries) == ("Wo ist mein Paket? 我的包裹在哪里", 1, 1)
    now = row(ledger.engine, stub.id)
    assert (now["state"], now["worker"], now["starts"]) == ("running", ME, 1)
    (change,) = rows_of(ledger.engine, "history", stub.id)
    assert (change["before"], change["after"], change["worker"]) == ("queued", "running", ME)


def test_a_message_delivered_twice_starts_once(ledger: TestLedger, worker: SqlLedger) -> None:
    (stub,) = put(ledger.engine)
    assert start(worker, stub, stub) == [stub.id]
    assert start(worker, stub) == []
    assert row(ledger.engine, stub.id)["starts"] == 1


def test_stale_unknown_and_settled_tickets_do_not_start(ledger: TestLedger, worker: SqlLedger) -> None:
    old, done = put(ledger.engine, 2)
    start(worker, done)
    worker.commit([settlement(done, Answered(ANSWER))], [], ME, NOON)
    stale = msgspec.structs.replace(old, delivery=7)
    unknown = msgspec.structs.replace(old, id="0190-nobody")
    assert start(worker, stale, unknown, done, redelivered=True) == []
    assert states(ledger.engine) == {"queued": 1, "answered": 1}


def test_a_redelivered_message_takes_a_running_ticket_over_and_fences_its_first_owner(
    ledger: TestLedger, worker: SqlLedger
) -> None:
    (stub,) = put(ledger.engine)
    start(worker, stub, who=OTHER)
    assert start(worker, stub) == []
    taken = worker.commit([], [start_of(stub, redelivered=True)], ME, NOON).started[stub.id]
    assert (taken.start, taken.tries) == (2, 2)
    assert worker.commit([settlement(stub, Answered(ANSWER))], [], OTHER, LATER).settled == frozenset()
    assert worker.commit([settlement(stub, Answered(ANSWER), start=1)], [], ME, LATER).settled == frozenset()
    assert worker.commit([settlement(stub, Answered(ANSWER), start=2)], [], ME, LATER).settled == {stub.id}
    assert len(rows_of(ledger.engine, "answers", stub.id)) == 1


def test_an_answer_is_kept_whole_with_its_attempt(ledger: TestLedger, worker: SqlLedger) -> None:
    (stub,) = put(ledger.engine)
    start(worker, stub)
    worker.commit([settlement(stub, Answered(ANSWER))], [], ME, LATER)
    assert (row(ledger.engine, stub.id)["state"], row(ledger.engine, stub.id)["settled_at"]) == ("answered", LATER)
    (answer,) = rows_of(ledger.engine, "answers", stub.id)
    assert msgspec.json.decode(answer["document"], type=Answer) == ANSWER
    (attempt,) = rows_of(ledger.engine, "attempts", stub.id)
    assert dict(attempt) | {"id": 0} == {
        "id": 0,
        "ticket_id": stub.id,
        "start": 1,
        "started_at": NOON,
        "ended_at": LATER,
        "worker": ME,
        "batch": "b1",
        "batch_size": 8,
        "outcome": "answered",
        "error": "",
    }


@pytest.mark.parametrize(
    ("outcome", "state", "reason", "delivery", "due"),
    [
        (Retry(LATER + timedelta(minutes=1), "upstream said 503"), "waiting", "upstream said 503", 1, True),
        (Returned("worker told to stop"), "queued", "worker told to stop", 2, True),
        (Parked("upstream is down", "far", LATER), "parked", "upstream is down", 1, True),
        (Dead("its prompt is too long"), "dead", "its prompt is too long", 1, False),
    ],
)
def test_every_other_outcome_has_its_state(
    ledger: TestLedger, worker: SqlLedger, outcome: Outcome, state: str, reason: str, delivery: int, due: bool
) -> None:
    (stub,) = put(ledger.engine)
    start(worker, stub)
    assert worker.commit([settlement(stub, outcome)], [], ME, LATER).settled == {stub.id}
    now = row(ledger.engine, stub.id)
    assert (now["state"], now["reason"], now["delivery"]) == (state, reason, delivery)
    if due:
        assert now["published_at"] is None
        assert now["due_at"] == (outcome.due_at if isinstance(outcome, Retry) else LATER)
    (attempt,) = rows_of(ledger.engine, "attempts", stub.id)
    assert (attempt["outcome"], attempt["error"]) == (state, reason)
    assert rows_of(ledger.engine, "answers", stub.id) == []


def test_being_given_back_is_no_try(ledger: TestLedger, worker: SqlLedger) -> None:
    (stub,) = put(ledger.engine)
    for delivery in (1, 2, 3):
        stub = msgspec.structs.replace(stub, delivery=delivery)
        started = worker.commit([], [start_of(stub)], ME, NOON).started[stub.id]
        assert (started.start, started.tries) == (delivery, 1)
        worker.commit([settlement(stub, Returned("told to stop"), start=delivery)], [], ME, NOON)


def test_what_was_lost_more_often_than_allowed_does_not_begin(ledger: TestLedger, worker: SqlLedger) -> None:
    lost, failed, fresh = put(ledger.engine, 3)
    start(worker, lost, failed, who=OTHER)
    retry = Retry(LATER, "bad answer")
    worker.commit([settlement(failed, retry)], [], OTHER, NOON)
    with writing(ledger.engine) as connection:
        connection.execute(sa.update(tickets).where(tickets.c.id == failed.id).values(state="queued"))
    first = worker.commit([], [start_of(each, redelivered=True, lost=0) for each in (lost, failed, fresh)], ME, NOON)
    assert set(first.started) == {failed.id, fresh.id}
    assert (first.started[failed.id].tries, first.started[failed.id].lost) == (2, 0)
    assert first.lost == {lost.id: 1}
    assert row(ledger.engine, lost.id)["worker"] == OTHER
    second = worker.commit([], [start_of(lost, redelivered=True, lost=1)], ME, NOON)
    assert (second.started[lost.id].start, second.started[lost.id].lost) == (2, 1)


def test_one_transaction_settles_a_batch_and_starts_the_next(ledger: TestLedger, worker: SqlLedger) -> None:
    first, second = put(ledger.engine, 40), put(ledger.engine, 40)
    start(worker, *first)
    done = worker.commit(
        [settlement(each, Answered(ANSWER)) for each in first], [start_of(each) for each in second], ME, LATER
    )
    assert done.settled == {each.id for each in first}
    assert set(done.started) == {each.id for each in second}
    assert states(ledger.engine) == {"answered": 40, "running": 40}


def test_a_ticket_given_back_and_delivered_anew_in_one_batch(ledger: TestLedger, worker: SqlLedger) -> None:
    (stub,) = put(ledger.engine)
    start(worker, stub)
    anew = msgspec.structs.replace(stub, delivery=2)
    done = worker.commit([settlement(stub, Returned("lost"))], [start_of(anew)], ME, LATER)
    assert (done.settled, done.started[stub.id].start) == ({stub.id}, 2)


@pytest.mark.parametrize("outcome", [Answered(ANSWER), Dead("no"), Retry(LATER, "later")])
def test_a_conversation_goes_on_once_its_head_has_ended(
    ledger: TestLedger, worker: SqlLedger, outcome: Outcome
) -> None:
    head, following = put(ledger.engine, 2, conversation="thread-1")
    start(worker, head)
    worker.commit([settlement(head, outcome)], [], ME, LATER)
    due_at = row(ledger.engine, following.id)["due_at"]
    assert due_at == (None if isinstance(outcome, Retry) else LATER)


def test_strays_keep_their_bytes(ledger: TestLedger, worker: SqlLedger) -> None:
    garbage = Delivery(stub=None, token="t", queue="ticketmill.low", headers=b"\xff\x00", body=b"{\x00\xfe")
    worker.stray([garbage, garbage], "is no ticket", NOON)
    with reading(ledger.engine) as connection:
        kept = connection.execute(sa.select(strays)).mappings().all()
    assert [(bytes(each["headers"]), bytes(each["body"]), each["queue"], each["reason"]) for each in kept] == [
        (b"\xff\x00", b"{\x00\xfe", "ticketmill.low", "is no ticket")
    ] * 2


def test_other_task_ids_of_what_was_settled_are_found(ledger: TestLedger) -> None:
    worker = SqlLedger(ledger.engine, results=True)
    first, second = put(ledger.engine, 2)
    with writing(ledger.engine) as connection:
        connection.execute(sa.insert(aliases), [{"task_id": "a", "ticket_id": first.id}])
        connection.execute(sa.insert(aliases), [{"task_id": "b", "ticket_id": first.id}])
    start(worker, first, second)
    done = worker.commit([settlement(each, Answered(ANSWER)) for each in (first, second)], [], ME, LATER)
    assert {key: sorted(value) for key, value in done.aliases.items()} == {first.id: ["a", "b"]}


def test_a_ticket_whose_document_cannot_be_read_is_dead_and_the_others_run(
    ledger: TestLedger, worker: SqlLedger
) -> None:
    broken, whole = put(ledger.engine, 2)
    with writing(ledger.engine) as connection:
        connection.execute(sa.update(tickets).where(tickets.c.id == broken.id).values(document='{"body": 1}'))
    assert start(worker, broken, whole) == [whole.id]
    assert row(ledger.engine, broken.id)["state"] == "dead"
    assert "cannot be read" in row(ledger.engine, broken.id)["reason"]


def test_a_heartbeat_keeps_one_row_and_clears_away_the_long_gone(ledger: TestLedger, worker: SqlLedger) -> None:
    worker.beat(OTHER, 4, "m", NOON - timedelta(days=2))
    worker.beat(ME, 8, "m", NOON)
    worker.beat(ME, 9, "m", LATER)
    with reading(ledger.engine) as connection:
        (only,) = connection.execute(sa.select(workers)).mappings().all()
    assert dict(only) == {"name": ME, "started_at": NOON, "seen_at": LATER, "slots": 9, "model": "m"}


def test_a_database_that_went_away_is_one_clear_line_and_changes_nothing(postgresql_ledger: TestLedger) -> None:
    server = postgresql_ledger.server
    assert server is not None
    worker = SqlLedger(postgresql_ledger.engine)
    (stub,) = put(postgresql_ledger.engine)
    server.kill()
    with pytest.raises(LedgerUnavailable, match="ticketmill doctor"):
        worker.commit([], [start_of(stub)], ME, NOON)
    server.start()
    assert start(worker, stub) == [stub.id]
