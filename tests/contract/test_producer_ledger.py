"""The producer's side of the ledger, on every database."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from producer.adapters.books import SqlBooks
from producer.adapters.key_ring import SqlKeyRing
from producer.adapters.ledger import SqlLedger
from producer.adapters.outbox import SqlOutbox
from producer.intake import Incoming, Intake
from producer.policy.gate import OpenGate
from producer.ports import Receipt, Stray
from schemas.envelope import Stub
from schemas.errors import LedgerUnavailable, NotFound
from schemas.ledger import Move, lock, move, new_id, reading, writing
from schemas.states import State
from schemas.tables import aliases, answers, history, tickets, workers
from schemas.tables import strays as strays_table
from schemas.ticket import NewTicket, Priority, Ticket
from tests.ground.ledgers import TestLedger

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)


class Desk:
    """One way in, and eyes on the tables."""

    def __init__(self, ledger: TestLedger) -> None:
        self.engine = ledger.engine
        self.ledger = SqlLedger(ledger.engine)
        self.outbox = SqlOutbox(ledger.engine)
        self.books = SqlBooks(ledger.engine)
        self.intake = Intake(self.ledger, OpenGate(), {"reply", "triage"}, new_id)

    def take(self, *sent: NewTicket, tenant: str = "acme", task_id: str = "", now: datetime = NOW) -> list[Receipt]:
        outcomes = self.intake.take_in([Incoming(ticket=each, tenant=tenant, task_id=task_id) for each in sent], now)
        assert all(isinstance(each, Receipt) for each in outcomes), outcomes
        return [each for each in outcomes if isinstance(each, Receipt)]

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        with reading(self.engine) as connection:
            return [dict(row) for row in connection.execute(sa.select(table)).mappings()]

    def row(self, ticket_id: str) -> dict[str, Any]:
        (row,) = (row for row in self.rows(tickets) if row["id"] == ticket_id)
        return row

    def to(self, ticket_id: str, *states: State, now: datetime = NOW, **changes: Any) -> None:
        """Moves a ticket as a worker would."""
        for state in states:
            with writing(self.engine) as connection:
                move(connection, [Move(lock(connection, [ticket_id])[ticket_id], state, changes=changes)], now)


@pytest.fixture
def desk(ledger: TestLedger) -> Desk:
    return Desk(ledger)


def new(body: str = "My parcel is lost", **fields: Any) -> NewTicket:
    return NewTicket(body=body, **fields)


class TestAccept:
    def test_a_new_ticket_is_queued_and_due(self, desk: Desk) -> None:
        (receipt,) = desk.take(new(subject="Parcel", priority=Priority.HIGH, metadata={"order": 7}))
        assert (receipt.state, receipt.duplicate) == (State.QUEUED, False)
        assert receipt.stub == Stub(
            id=receipt.ticket_id, delivery=1, priority=Priority.HIGH, tenant="acme", job="reply"
        )
        row = desk.row(receipt.ticket_id)
        assert (row["state"], row["due_at"], row["published_at"]) == ("queued", NOW, None)
        assert row["external_id"] == receipt.ticket_id
        (change,) = desk.rows(history)
        assert (change["ticket_id"], change["before"], change["after"]) == (receipt.ticket_id, "", "queued")

    def test_the_same_ticket_again_changes_nothing(self, desk: Desk) -> None:
        (first,) = desk.take(new(external_id="42"))
        (again,) = desk.take(new("Other words", external_id="42"), now=LATER)
        assert (again.ticket_id, again.duplicate, again.stub) == (first.ticket_id, True, None)
        assert [row["received_at"] for row in desk.rows(tickets)] == [NOW]
        assert len(desk.rows(history)) == 1

    def test_twice_in_one_call_is_one_ticket(self, desk: Desk) -> None:
        receipts = desk.take(new(external_id="1"), new(external_id="2"), new(external_id="1"))
        assert [each.duplicate for each in receipts] == [False, False, True]
        assert receipts[0].ticket_id == receipts[2].ticket_id
        assert len(desk.rows(tickets)) == 2

    @pytest.mark.parametrize("other", [{"revision": "2"}, {"source": "mail"}, {"external_id": "43"}])
    def test_every_part_of_the_key_counts(self, desk: Desk, other: dict[str, str]) -> None:
        (first,) = desk.take(new(external_id="42"))
        (second,) = desk.take(new(**({"external_id": "42"} | other)))
        assert not second.duplicate
        assert first.ticket_id != second.ticket_id

    def test_tenants_never_share_a_key(self, desk: Desk) -> None:
        desk.take(new(external_id="42"), tenant="acme")
        (theirs,) = desk.take(new(external_id="42"), tenant="globex")
        assert not theirs.duplicate

    def test_without_external_id_equal_texts_are_two_tickets(self, desk: Desk) -> None:
        assert [each.duplicate for each in desk.take(new("Hello"), new("Hello"))] == [False, False]

    def test_many_at_once_from_several_threads_are_one_ticket_each(self, desk: Desk) -> None:
        together = threading.Barrier(4)

        def send(turn: int) -> list[Receipt]:
            together.wait()
            numbers = list(range(60)) if turn % 2 else list(reversed(range(60)))
            return desk.take(*(new(external_id=str(number), conversation=f"c{number % 7}") for number in numbers))

        with ThreadPoolExecutor(4) as pool:
            receipts = [receipt for sent in pool.map(send, range(4)) for receipt in sent]
        assert sum(not each.duplicate for each in receipts) == 60
        assert len({each.ticket_id for each in receipts}) == len(desk.rows(tickets)) == 60

    def test_backfill_is_held_back(self, desk: Desk) -> None:
        (receipt,) = desk.take(new(priority=Priority.BACKFILL))
        assert (receipt.state, receipt.stub) == (State.RECEIVED, None)
        assert desk.row(receipt.ticket_id)["due_at"] is None

    def test_a_document_comes_back_whole(self, desk: Desk) -> None:
        text = "Zeile\r\n\t\u202eabc \U0001f9ff 退款"
        (receipt,) = desk.take(new(text, metadata={"a b": None, "x": 1.5, "y": True}))
        stored = msgspec.json.decode(desk.row(receipt.ticket_id)["document"], type=Ticket)
        assert (stored.body, stored.metadata) == (text, {"a b": None, "x": 1.5, "y": True})


class TestCeleryNames:
    TASK = "0190f3c2-1111-7222-8333-444455556666"

    def test_a_uuid_becomes_the_tickets_id(self, desk: Desk) -> None:
        (receipt,) = desk.take(new(), task_id=self.TASK)
        assert receipt.ticket_id == self.TASK
        assert desk.rows(aliases) == []

    def test_the_same_message_again_is_the_same_ticket(self, desk: Desk) -> None:
        desk.take(new(), task_id=self.TASK)
        (again,) = desk.take(new(), task_id=self.TASK)
        assert (again.ticket_id, again.duplicate) == (self.TASK, True)

    def test_another_name_is_an_alias(self, desk: Desk) -> None:
        (receipt,) = desk.take(new(), task_id="my task 1")
        (again,) = desk.take(new(), task_id="my task 1")
        assert again.ticket_id == receipt.ticket_id != "my task 1"
        assert desk.rows(aliases) == [{"task_id": "my task 1", "ticket_id": receipt.ticket_id}]

    def test_a_known_ticket_under_a_new_task_gets_an_alias(self, desk: Desk) -> None:
        (first,) = desk.take(new(external_id="42"))
        for _ in range(2):
            (again,) = desk.take(new(external_id="42"), task_id=self.TASK)
            assert (again.ticket_id, again.duplicate) == (first.ticket_id, True)
        assert desk.rows(aliases) == [{"task_id": self.TASK, "ticket_id": first.ticket_id}]

    def test_a_task_id_that_is_another_tickets_loses_nothing(self, desk: Desk) -> None:
        (theirs,) = desk.take(new("Theirs"), tenant="globex")
        (ours,) = desk.take(new("Ours"), task_id=theirs.ticket_id)
        assert (ours.ticket_id == theirs.ticket_id, ours.duplicate) == (False, False)
        (again,) = desk.take(new("Ours"), task_id=theirs.ticket_id)
        assert (again.ticket_id, again.duplicate) == (ours.ticket_id, True)
        assert desk.rows(aliases) == []


class TestConversations:
    def test_only_the_first_is_due(self, desk: Desk) -> None:
        first, second, other = desk.take(new(conversation="c"), new(conversation="c"), new(conversation="d"))
        (third,) = desk.take(new(conversation="c"))
        assert [each.stub is not None for each in (first, second, third, other)] == [True, False, False, True]
        assert [desk.row(each.ticket_id)["sequence"] for each in (first, second, third, other)] == [1, 2, 3, 1]

    def test_the_next_is_due_when_the_first_has_ended(self, desk: Desk) -> None:
        first, second = desk.take(new(conversation="c"), new(conversation="c"))
        desk.to(first.ticket_id, State.RUNNING, State.ANSWERED, now=LATER)
        assert desk.row(second.ticket_id)["due_at"] == LATER
        (third,) = desk.take(new(conversation="c"), now=LATER)
        assert third.stub is None

    def test_one_that_comes_after_all_have_ended_is_due(self, desk: Desk) -> None:
        (first,) = desk.take(new(conversation="c"))
        desk.to(first.ticket_id, State.RUNNING, State.ANSWERED)
        (second,) = desk.take(new(conversation="c"))
        assert second.stub is not None

    def test_a_repeat_holds_nobody(self, desk: Desk) -> None:
        (first,) = desk.take(new(external_id="1", conversation="c"))
        desk.to(first.ticket_id, State.RUNNING, State.ANSWERED)
        repeat, second = desk.take(new(external_id="1", conversation="c"), new(conversation="c"))
        assert (repeat.duplicate, second.stub is not None) == (True, True)

    def test_tenants_never_share_a_conversation(self, desk: Desk) -> None:
        desk.take(new(conversation="c"), tenant="acme")
        (theirs,) = desk.take(new(conversation="c"), tenant="globex")
        assert theirs.stub is not None

    def test_intake_and_settlement_at_once_leave_nobody_behind(self, desk: Desk) -> None:
        (head,) = desk.take(new(conversation="c"))
        for _ in range(30):
            with ThreadPoolExecutor(2) as pool:
                ended = pool.submit(desk.to, head.ticket_id, State.RUNNING, State.ANSWERED)
                (following,) = pool.submit(desk.take, new(conversation="c")).result()
                ended.result()
            assert desk.row(following.ticket_id)["due_at"] is not None
            head = following


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
        released = desk.outbox.release_backfill(window=3, most=100, now=LATER)
        assert [stub.id for stub in released] == [each.ticket_id for each in receipts[:3]]
        assert {stub.delivery for stub in released} == {1}
        assert desk.outbox.release_backfill(window=3, most=100, now=LATER) == []
        desk.to(receipts[0].ticket_id, State.RUNNING, State.ANSWERED)
        assert len(desk.outbox.release_backfill(window=3, most=100, now=LATER)) == 1
        assert len(desk.outbox.release_backfill(window=100, most=2, now=LATER)) == 2

    def test_released_tickets_of_one_conversation_go_one_by_one(self, desk: Desk) -> None:
        first, second = desk.take(*(new(conversation="c", priority=Priority.BACKFILL) for _ in range(2)))
        (stub,) = desk.outbox.release_backfill(window=10, most=10, now=NOW)
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


class TestViews:
    def test_a_ticket_with_its_answer(self, desk: Desk) -> None:
        (receipt,) = desk.take(new(external_id="42", conversation="c"))
        desk.to(receipt.ticket_id, State.RUNNING, State.ANSWERED, now=LATER)
        with writing(desk.engine) as connection:
            document = '{"text":"Here it is","model":"m"}'
            connection.execute(sa.insert(answers).values(ticket_id=receipt.ticket_id, at=LATER, document=document))
        view = desk.ledger.view("acme", receipt.ticket_id)
        assert view is not None
        assert (view.state, view.priority, view.external_id, view.settled_at) == ("answered", "normal", "42", LATER)
        assert view.answer is not None
        assert view.answer.text == "Here it is"

    def test_another_tenants_ticket_is_not_there(self, desk: Desk) -> None:
        (receipt,) = desk.take(new(external_id="42"), tenant="acme")
        assert desk.ledger.view("globex", receipt.ticket_id) is None
        assert desk.ledger.find("globex", "42") == []

    def test_found_by_external_id_the_newest_first(self, desk: Desk) -> None:
        old, mail, newer = desk.take(
            new(external_id="42"), new(external_id="42", source="mail"), new(external_id="42", revision="2")
        )
        assert [view.id for view in desk.ledger.find("acme", "42", "api")] == [newer.ticket_id, old.ticket_id]
        assert {view.id for view in desk.ledger.find("acme", "42")} >= {mail.ticket_id}


def test_strays_are_kept_once(desk: Desk) -> None:
    stray = Stray(id="s1", queue="ticketmill.inlet", reason="is no JSON", headers=b"{}", body=b"\x00\xff")
    desk.ledger.keep([stray, stray], NOW)
    desk.ledger.keep([stray], LATER)
    (row,) = desk.rows(strays_table)
    assert (row["at"], row["body"], row["reason"]) == (NOW, b"\x00\xff", "is no JSON")


class TestKeys:
    def test_a_key_is_its_tenants_until_revoked(self, ledger: TestLedger) -> None:
        ring = SqlKeyRing(ledger.engine)
        key = ring.add("acme", "desk", "d" * 64, NOW)
        assert ring.tenant_of("d" * 64) == "acme"
        assert ring.tenant_of("e" * 64) is None
        ring.revoke(key.id, LATER)
        ring.revoke(key.id, LATER + timedelta(days=1))
        assert ring.tenant_of("d" * 64) is None
        assert [(each.label, each.revoked_at) for each in ring.listed()] == [("desk", LATER)]

    def test_there_is_nothing_to_revoke_under_another_id(self, ledger: TestLedger) -> None:
        with pytest.raises(NotFound):
            SqlKeyRing(ledger.engine).revoke("none", NOW)


def test_a_ledger_out_of_reach_takes_nothing(postgresql_ledger: TestLedger) -> None:
    desk = Desk(postgresql_ledger)
    assert postgresql_ledger.server is not None
    postgresql_ledger.server.kill()
    with pytest.raises(LedgerUnavailable) as error:
        desk.take(new())
    assert "\n" not in str(error.value)
    postgresql_ledger.server.start()
    desk.take(new())


def test_a_thousand_known_tickets_are_found_again(desk: Desk) -> None:
    sent = [new(str(number), external_id=str(number)) for number in range(1_100)]
    first = desk.take(*sent)
    again = desk.take(*sent)
    assert all(each.duplicate for each in again)
    assert [each.ticket_id for each in again] == [each.ticket_id for each in first]
