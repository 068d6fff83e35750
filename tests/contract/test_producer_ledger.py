"""The producer's side of the ledger, on every database."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec
import pytest
import sqlalchemy as sa

from producer.adapters.key_ring import SqlKeyRing
from producer.ports import Receipt, Stray
from schemas.envelope import Stub
from schemas.errors import LedgerUnavailable, NotFound
from schemas.ledger import writing
from schemas.states import State
from schemas.tables import aliases, answers, history, tickets
from schemas.tables import strays as strays_table
from schemas.ticket import Priority, Ticket
from tests.contract.desk import LATER, NOW, Desk, new
from tests.ground.ledgers import TestLedger


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
