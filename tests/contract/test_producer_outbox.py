"""What relay and reconciler ask of the ledger, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import sqlalchemy as sa

from producer.admission import OpenGate
from schemas.ledger import Move, lock, move, writing
from schemas.states import State
from schemas.tables import tickets, workers
from schemas.ticket import Priority
from tests.contract.desk import LATER, NOW, Desk, new


class TestOutbox:
    def test_the_most_urgent_first_and_no_more_than_asked(self, desk: Desk) -> None:
        desk.take(*(new(priority=priority) for priority in reversed(Priority) if priority is not Priority.BACKFILL))
        stubs = desk.outbox.unpublished(3, NOW)
        assert [stub.priority for stub in stubs] == [Priority.URGENT, Priority.HIGH, Priority.NORMAL]

    def test_what_is_published_is_gone_from_it(self, desk: Desk) -> None:
        desk.take(new(), new())
        first, second = desk.outbox.unpublished(10, NOW)
        desk.outbox.published([first], LATER)
        assert desk.outbox.unpublished(10, LATER) == [second]
        assert desk.row(first.id)["published_at"] == LATER

    def test_a_late_confirmation_does_not_hide_a_newer_delivery(self, desk: Desk) -> None:
        (receipt,) = desk.take(new())
        desk.to(receipt.ticket_id, State.RUNNING)
        desk.to(receipt.ticket_id, State.QUEUED, delivery=2, due_at=NOW, published_at=None)
        assert receipt.stub is not None
        desk.outbox.published([receipt.stub], NOW)
        (stub,) = desk.outbox.unpublished(10, NOW)
        assert stub.delivery == 2

    def test_what_is_not_due_is_not_in_it(self, desk: Desk) -> None:
        desk.take(new(), now=LATER)
        assert desk.outbox.unpublished(10, NOW) == []

    def test_wakes_what_has_waited_long_enough(self, desk: Desk) -> None:
        early, late = desk.take(new(), new())
        for receipt, due_at in ((early, NOW), (late, LATER + timedelta(seconds=1))):
            desk.to(receipt.ticket_id, State.RUNNING)
            desk.to(receipt.ticket_id, State.WAITING, due_at=due_at)
        (stub,) = desk.outbox.wake(10, LATER)
        assert (stub.id, stub.delivery) == (early.ticket_id, 2)
        assert desk.outbox.unpublished(10, LATER) == [stub]
        assert desk.row(late.ticket_id)["state"] == "waiting"

    def test_backfill_is_released_through_a_window(self, desk: Desk) -> None:
        receipts = desk.take(*(new(str(number), priority=Priority.BACKFILL) for number in range(7)))
        released = desk.outbox.release_backfill(3, 100, OpenGate().judge_held, LATER)
        assert [stub.id for stub in released] == [each.ticket_id for each in receipts[:3]]
        assert {stub.delivery for stub in released} == {1}
        assert desk.outbox.release_backfill(3, 100, OpenGate().judge_held, LATER) == []
        desk.to(receipts[0].ticket_id, State.RUNNING, State.ANSWERED)
        assert len(desk.outbox.release_backfill(3, 100, OpenGate().judge_held, LATER)) == 1
        assert len(desk.outbox.release_backfill(100, 2, OpenGate().judge_held, LATER)) == 2

    def test_released_tickets_of_one_conversation_go_one_by_one(self, desk: Desk) -> None:
        first, second = desk.take(*(new(conversation="c", priority=Priority.BACKFILL) for _ in range(2)))
        (stub,) = desk.outbox.release_backfill(10, 10, OpenGate().judge_held, NOW)
        assert stub.id == first.ticket_id
        desk.to(first.ticket_id, State.RUNNING, State.ANSWERED)
        assert [each.id for each in desk.outbox.unpublished(10, NOW)] == [second.ticket_id]


class TestBooks:
    def test_a_duty_is_one_holders_at_a_time(self, desk: Desk) -> None:
        take = desk.books.take_duty
        assert take("relay", "a", LATER, NOW)
        assert not take("relay", "b", LATER, NOW)
        assert take("relay", "a", LATER, NOW)
        assert take("other", "b", LATER, NOW)
        assert take("relay", "b", LATER + timedelta(minutes=1), LATER + timedelta(seconds=1))
        desk.books.drop_duty("relay", "a")
        assert not take("relay", "a", LATER, LATER)
        desk.books.drop_duty("relay", "b")
        assert take("relay", "a", LATER, LATER)

    def test_many_who_want_a_duty_at_once_make_one_holder(self, desk: Desk) -> None:
        with ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda name: desk.books.take_duty("relay", name, LATER, NOW), "abcdef"))
        assert sum(got) == 1

    def test_recalls_what_silent_workers_were_running(self, desk: Desk) -> None:
        receipts = desk.take(new(), new(), new(), new())
        for receipt, worker in zip(receipts, ("alive", "silent", "unknown", ""), strict=True):
            if worker:
                with writing(desk.engine) as connection:
                    move(
                        connection,
                        [Move(lock(connection, [receipt.ticket_id])[receipt.ticket_id], State.RUNNING, worker=worker)],
                        NOW,
                    )
        for name, seen_at in (("alive", LATER), ("silent", NOW)):
            with writing(desk.engine) as connection:
                row = {"name": name, "started_at": NOW, "seen_at": seen_at, "slots": 1, "model": ""}
                connection.execute(sa.insert(workers).values(row))
        stubs = desk.books.recall(NOW + timedelta(seconds=1), 10, LATER)
        assert {(stub.id, stub.delivery) for stub in stubs} == {(each.ticket_id, 2) for each in receipts[1:3]}
        assert [row["state"] for row in desk.rows(tickets)].count("running") == 1
        assert desk.row(receipts[1].ticket_id)["reason"] == "its worker has gone silent"
        assert desk.books.recall(NOW + timedelta(seconds=1), 10, LATER) == []

    def test_counts_and_pages_what_should_lie_on_the_broker(self, desk: Desk) -> None:
        receipts = desk.take(*(new() for _ in range(5)), new(priority=Priority.LOW))
        stubs = [each.stub for each in receipts if each.stub is not None]
        desk.outbox.published(stubs[:3] + stubs[5:], NOW)
        desk.outbox.published(stubs[3:4], LATER)
        assert desk.books.queued(LATER) == {Priority.NORMAL: 3, Priority.LOW: 1}
        page = desk.books.suspects(Priority.NORMAL, LATER, "", 2)
        rest = desk.books.suspects(Priority.NORMAL, LATER, page[-1].id, 2)
        assert page + rest == sorted(stubs[:3], key=lambda stub: stub.id)

    def test_forgets_only_what_is_still_queued(self, desk: Desk) -> None:
        receipts = desk.take(new(), new())
        stubs = [each.stub for each in receipts if each.stub is not None]
        desk.outbox.published(stubs, NOW)
        desk.to(stubs[0].id, State.RUNNING)
        assert desk.books.forget(stubs) == 1
        assert desk.outbox.unpublished(10, NOW) == [stubs[1]]
