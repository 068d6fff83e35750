"""What reviewers do, on every database."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import sqlalchemy as sa

from producer.adapters.key_ring import SqlKeyRing
from producer.adapters.outbox import SqlOutbox
from producer.adapters.review_lists import SqlReviewLists
from producer.adapters.reviews import SqlReviews
from producer.api_keys import digest_of
from schemas.errors import Refused
from schemas.ledger import Move, lock, move, reading, writing
from schemas.review import Done, Edit, Holder, Lane, Order, Role, Sheet, Step, Wanted, Why
from schemas.states import State
from schemas.tables import claims, history, reviews, tickets
from schemas.ticket import NewTicket, Priority
from tests.contract.desk import NOW
from tests.ground.ledgers import TestLedger
from tests.ground.reviewing import person, send

CLAIM = timedelta(minutes=5)
UNDO = timedelta(seconds=5)
LATER = NOW + timedelta(seconds=30)


class Office:
    """Two colleagues, somebody of another tenant, and an operator, over one ledger."""

    def __init__(self, ledger: TestLedger, second_opinions: float = 0.0) -> None:
        self.engine = ledger.engine
        self.reviews = SqlReviews(ledger.engine, claim_for=CLAIM, undo_for=UNDO, second_opinions=second_opinions)
        self.lists = SqlReviewLists(ledger.engine, sla=timedelta(hours=4))
        self.ana, self.ben = person(ledger.engine, "Ana")[0], person(ledger.engine, "Ben")[0]
        self.stranger = person(ledger.engine, "Zoe", tenant="globex")[0]
        self.operator = person(ledger.engine, "", tenant="default", role=Role.OPERATOR)[0]

    def take_in(self, *bodies: str, **fields: str) -> list[str]:
        return send(self.engine, *(NewTicket(body=body, **fields) for body in bodies), now=NOW)

    def do(self, who: Holder, step: Step, *ids: str, now=NOW, **more: object) -> Done:
        if step is Step.REJECT:
            more = {"reason": Why.SPAM, **more}
        return self.reviews.carry_out(who, Order(step=step, tickets=list(ids), **more), now)

    def state(self, ticket_id: str) -> str:
        with reading(self.engine) as connection:
            return connection.scalars(sa.select(tickets.c.state).where(tickets.c.id == ticket_id)).one()

    def row(self, ticket_id: str) -> sa.RowMapping:
        with reading(self.engine) as connection:
            return connection.execute(sa.select(tickets).where(tickets.c.id == ticket_id)).mappings().one()

    def ids(self, who: Holder, now=NOW, **wanted: object) -> list[str]:
        return [item.id for item in self.lists.page(who, Wanted(**wanted), now).items]

    def sheet(self, who: Holder, ticket_id: str, unseen: bool = False) -> Sheet:
        sheet = self.lists.sheet(who, ticket_id, unseen, NOW)
        assert sheet is not None
        return sheet


@pytest.fixture
def office(ledger: TestLedger) -> Office:
    return Office(ledger)


class TestDeciding:
    def test_an_accepted_ticket_is_queued_at_its_old_priority_once_it_can_no_longer_be_taken_back(
        self, office: Office
    ) -> None:
        (ticket,) = office.take_in("O rose, o rose", priority=Priority.HIGH)
        assert office.do(office.ana, Step.ACCEPT, ticket).done == [ticket]
        outbox = SqlOutbox(office.engine)
        assert outbox.unpublished(10, NOW) == []
        (stub,) = outbox.unpublished(10, NOW + UNDO)
        assert (stub.id, stub.priority, stub.delivery) == (ticket, Priority.HIGH, 2)

    def test_a_rejected_ticket_says_why(self, office: Office) -> None:
        (ticket,) = office.take_in("Buy now")
        office.do(office.ana, Step.REJECT, ticket, reason=Why.SCAM)
        assert (office.state(ticket), office.row(ticket)["reason"]) == (
            "rejected",
            "rejected in review by Ana (scam)",
        )

    def test_a_rejection_frees_the_rest_of_the_conversation(self, office: Office) -> None:
        first, second = office.take_in("One", "Two", conversation="c")
        office.do(office.ana, Step.ACCEPT, second)
        assert office.row(second)["due_at"] is None
        office.do(office.ana, Step.REJECT, first, now=LATER)
        assert office.row(second)["due_at"] == LATER

    def test_a_decision_is_kept_for_the_gate_to_learn_from(self, office: Office) -> None:
        (ticket,) = office.take_in("O rose, o rose")
        office.do(office.ana, Step.ACCEPT, ticket, reason=Why.CREATIVE, note="a song")
        (ruling,) = office.lists.rulings()
        assert (ruling.reviewer, ruling.step, ruling.reason, ruling.note) == ("Ana", "accept", "creative", "a song")
        assert (ruling.was, ruling.gate_code) == ("in_review", "creative")
        assert office.sheet(office.ana, ticket).scores == {"creative": 0.93, "repeated": 0.41}

    def test_many_at_once(self, office: Office) -> None:
        ids = office.take_in(*(f"Ticket {n}" for n in range(20)))
        done = office.do(office.ana, Step.REJECT, *ids[:12], "no-such-id")
        assert done.done == ids[:12]
        assert [each.why for each in done.refused] == ["there is no such ticket"]
        assert office.ids(office.ana) == ids[12:]
        assert office.do(office.ana, Step.UNDO).done == ids[:12]
        assert office.ids(office.ana) == ids

    def test_an_edit_is_accepted_in_place_of_the_text_which_is_kept(self, office: Office) -> None:
        (ticket,) = office.take_in("My card is 4111 1111 1111 1111", subject="Card", metadata={"order": "7"})
        office.do(office.ana, Step.ACCEPT, ticket, edit=Edit(body="My card is [removed]", subject="Card"))
        document = json.loads(office.row(ticket)["document"])
        assert (document["body"], document["metadata"]) == ("My card is [removed]", {"order": "7"})
        with reading(office.engine) as connection:
            assert "4111" in connection.scalars(sa.select(reviews.c.edited)).one()
        office.do(office.ana, Step.UNDO)
        assert "4111" in office.row(ticket)["document"]

    @pytest.mark.parametrize(
        ("order", "field"),
        [
            (Order(step=Step.ACCEPT), "tickets"),
            (Order(step=Step.REJECT, tickets=["t"]), "reason"),
            (Order(step=Step.REJECT, tickets=["t"], reason=Why.HONEST), "reason"),
            (Order(step=Step.ACCEPT, tickets=["t"], reason=Why.SPAM), "reason"),
            (Order(step=Step.NOTE, tickets=["t"], note="  "), "note"),
            (Order(step=Step.ACCEPT, tickets=["t", "u"], edit=Edit(body="x")), "edit"),
            (Order(step=Step.ACCEPT, tickets=["t"], lane=Lane.SECOND, edit=Edit(body="x")), "edit"),
        ],
    )
    def test_an_order_that_makes_no_sense_names_its_field(self, office: Office, order: Order, field: str) -> None:
        with pytest.raises(Refused) as refused:
            office.reviews.carry_out(office.ana, order, NOW)
        assert refused.value.field == field

    def test_an_edit_that_no_ticket_may_hold_changes_nothing(self, office: Office) -> None:
        (ticket,) = office.take_in("Text")
        with pytest.raises(Refused):
            office.do(office.ana, Step.ACCEPT, ticket, edit=Edit(body="a\x00b"))
        assert (office.state(ticket), office.ids(office.ana)) == ("in_review", [ticket])


class TestClaims:
    def test_what_one_has_open_another_cannot_take_or_decide_until_it_expires(self, office: Office) -> None:
        (ticket,) = office.take_in("Text")
        assert office.do(office.ana, Step.CLAIM, ticket).done == [ticket]
        for step in (Step.CLAIM, Step.ACCEPT, Step.REJECT, Step.SKIP, Step.RELEASE):
            (refused,) = office.do(office.ben, step, ticket).refused
            assert refused.why == "Ana has it open"
        (item,) = office.lists.page(office.ben, Wanted(), NOW).items
        assert (item.claimed_by, item.claimed_until, item.mine) == ("Ana", NOW + CLAIM, False)
        assert office.do(office.ben, Step.CLAIM, ticket, now=NOW + CLAIM).done == [ticket]
        assert office.do(office.ana, Step.ACCEPT, ticket, now=NOW + CLAIM).done == []

    def test_to_leave_or_skip_frees_it(self, office: Office) -> None:
        for step in (Step.RELEASE, Step.SKIP):
            (ticket,) = office.take_in("Text")
            office.do(office.ana, Step.CLAIM, ticket)
            office.do(office.ana, step, ticket)
            assert office.do(office.ben, Step.CLAIM, ticket).done == [ticket]

    def test_what_was_skipped_is_left_to_others_for_a_while(self, office: Office) -> None:
        (ticket,) = office.take_in("Text")
        office.do(office.ana, Step.SKIP, ticket)
        assert (office.ids(office.ana), office.ids(office.ben)) == ([], [ticket])
        assert office.ids(office.ana, now=NOW + timedelta(hours=2)) == [ticket]
        assert office.do(office.ana, Step.UNDO).done == [ticket]
        assert office.ids(office.ana) == [ticket]

    def test_of_many_who_want_the_same_ticket_at_once_one_gets_it(self, office: Office) -> None:
        ids = office.take_in(*(f"Ticket {n}" for n in range(12)))
        people = [office.ana, office.ben, office.operator]
        together = threading.Barrier(3)

        def judge(number: int) -> list[str]:
            together.wait()
            order = ids if number % 2 else ids[::-1]
            done: list[str] = []
            for ticket in order:
                done += office.do(people[number], Step.CLAIM, ticket).done and (
                    office.do(people[number], Step.REJECT if number else Step.ACCEPT, ticket).done
                )
            return done

        with ThreadPoolExecutor(3) as pool:
            judged = [ticket for done in pool.map(judge, range(3)) for ticket in done]
        assert sorted(judged) == sorted(ids)
        with reading(office.engine) as connection:
            assert connection.scalar(sa.select(sa.func.count()).select_from(reviews)) == len(ids)
            assert connection.scalar(sa.select(sa.func.count()).select_from(claims)) == 0


class TestUndo:
    @pytest.mark.parametrize("step", [Step.ACCEPT, Step.REJECT])
    def test_the_last_decision_is_taken_back_whole(self, office: Office, step: Step) -> None:
        (ticket,) = office.take_in("Text")
        before = office.row(ticket)
        office.do(office.ana, step, ticket)
        assert office.do(office.ben, Step.UNDO).done == []
        assert office.do(office.ana, Step.UNDO).done == [ticket]
        after = dict(office.row(ticket))
        assert after | {"delivery": 1} == dict(before)
        assert office.do(office.ana, Step.UNDO).done == []
        changes = [(change.before, change.after) for change in office.sheet(office.ana, ticket).history]
        decided = "queued" if step is Step.ACCEPT else "rejected"
        assert changes == [("", "in_review"), ("in_review", decided), (decided, "in_review")]

    def test_one_after_the_other_backwards(self, office: Office) -> None:
        first, second = office.take_in("One", "Two")
        office.do(office.ana, Step.ACCEPT, first)
        office.do(office.ana, Step.REJECT, second, now=LATER)
        assert office.do(office.ana, Step.UNDO, now=LATER).done == [second]
        assert office.do(office.ana, Step.UNDO, now=LATER).done == [first]

    def test_what_a_worker_has_begun_stays(self, office: Office) -> None:
        (ticket,) = office.take_in("Text")
        office.do(office.ana, Step.ACCEPT, ticket)
        with writing(office.engine) as connection:
            move(connection, [Move(lock(connection, [ticket])[ticket], State.RUNNING)], NOW)
        (refused,) = office.do(office.ana, Step.UNDO).refused
        assert "a worker has begun it" in refused.why
        assert office.state(ticket) == "running"

    def test_what_was_published_and_taken_back_is_never_begun_by_its_old_message(self, office: Office) -> None:
        (ticket,) = office.take_in("Text")
        office.do(office.ana, Step.ACCEPT, ticket)
        outbox = SqlOutbox(office.engine)
        outbox.published(outbox.unpublished(10, LATER), LATER)
        office.do(office.ana, Step.UNDO, now=LATER)
        office.do(office.ana, Step.ACCEPT, ticket, now=LATER)
        assert [stub.delivery for stub in outbox.unpublished(10, LATER + UNDO)] == [3]


class TestRejected:
    def test_one_click_accepts_what_the_gate_rejected(self, office: Office) -> None:
        (ticket,) = office.take_in("REJECT my parcel")
        assert office.ids(office.ana) == []
        assert office.ids(office.ana, lane=Lane.REJECTED) == [ticket]
        assert office.do(office.ana, Step.ACCEPT, ticket, lane=Lane.REJECTED).done == [ticket]
        assert office.state(ticket) == "queued"
        assert [ruling.was for ruling in office.lists.rulings()] == ["rejected"]
        office.do(office.ana, Step.UNDO)
        assert (office.state(ticket), office.row(ticket)["reason"]) == ("rejected", "it advertises")

    def test_a_rejection_that_is_confirmed_is_counted_and_not_shown_again(self, office: Office) -> None:
        (ticket,) = office.take_in("REJECT pills")
        assert office.do(office.ana, Step.REJECT, ticket, lane=Lane.REJECTED).done == [ticket]
        assert office.state(ticket) == "rejected"
        assert office.ids(office.ben, lane=Lane.REJECTED) == []
        (refused,) = office.do(office.ben, Step.REJECT, ticket, lane=Lane.REJECTED).refused
        assert refused.why == "it has been judged already"

    def test_who_appeals_is_found_by_external_id_whoever_judged(self, office: Office) -> None:
        (ticket,) = office.take_in("REJECT my parcel", external_id="4711")
        office.do(office.ana, Step.REJECT, ticket, lane=Lane.REJECTED)
        assert office.ids(office.ben, lane=Lane.REJECTED, ticket="4711") == [ticket]
        assert office.do(office.ben, Step.ACCEPT, ticket, lane=Lane.REJECTED).done == [ticket]

    def test_pages_show_each_once_in_an_order_of_chance(self, office: Office) -> None:
        ids = office.take_in(*(f"REJECT {n}" for n in range(9)))
        seen: list[str] = []
        while page := office.ids(office.ana, lane=Lane.REJECTED, most=4, after=seen[-1] if seen else ""):
            seen += page
        assert sorted(seen) == ids
        assert seen == sorted(ids, key=lambda each: each[24:])


class TestSecondOpinion:
    @pytest.fixture
    def office(self, ledger: TestLedger) -> Office:
        return Office(ledger, second_opinions=1.0)

    def test_somebody_else_is_asked_once_and_not_told_the_first(self, office: Office) -> None:
        (ticket,) = office.take_in("O rose")
        office.do(office.ana, Step.ACCEPT, ticket)
        assert office.ids(office.ana, lane=Lane.SECOND) == []
        assert office.ids(office.ben, lane=Lane.SECOND) == [ticket]
        sheet = office.sheet(office.ben, ticket, unseen=True)
        assert (sheet.item.state, sheet.history, sheet.decisions) == ("in_review", [], [])
        assert office.do(office.ben, Step.REJECT, ticket, lane=Lane.SECOND).done == [ticket]
        assert office.state(ticket) == "queued"
        assert office.ids(office.ben, lane=Lane.SECOND) == office.ids(office.operator, lane=Lane.SECOND) == []
        assert [(ruling.step, ruling.second_opinion) for ruling in office.lists.rulings()] == [
            ("accept", False),
            ("reject", True),
        ]

    def test_who_finds_a_rejected_ticket_honest_accepts_it(self, office: Office) -> None:
        (ticket,) = office.take_in("My parcel")
        office.do(office.ana, Step.REJECT, ticket)
        office.do(office.ben, Step.ACCEPT, ticket, lane=Lane.SECOND)
        assert office.state(ticket) == "queued"
        assert office.do(office.ana, Step.UNDO).done == []
        assert office.do(office.ben, Step.UNDO).done == [ticket]
        assert office.state(ticket) == "rejected"

    def test_the_sample_is_a_share_and_the_same_whoever_asks(self) -> None:
        from producer.policy.review import sampled

        chosen = [number for number in range(4000) if sampled(str(number), 0.05)]
        assert 120 < len(chosen) < 280
        assert not any(sampled(str(number), 0.0) for number in range(1000))
        assert all(sampled(str(number), 1.0) for number in range(1000))


class TestWhose:
    def test_a_reviewer_sees_and_touches_the_own_tenants_tickets_only(self, office: Office) -> None:
        (ticket,) = office.take_in("Text")
        assert office.ids(office.stranger) == []
        assert office.lists.sheet(office.stranger, ticket, False, NOW) is None
        for step in (Step.CLAIM, Step.ACCEPT, Step.NOTE):
            (refused,) = office.do(office.stranger, step, ticket, note="x").refused
            assert refused.why == "there is no such ticket"
        assert office.ids(office.operator) == [ticket]
        assert office.do(office.operator, Step.ACCEPT, ticket).done == [ticket]

    def test_a_session_ends_with_its_time_or_its_key(self, office: Office) -> None:
        ring = SqlKeyRing(office.engine)
        ring.begin_session(digest_of("cookie"), office.ana, NOW + CLAIM, NOW)
        assert ring.in_session(digest_of("cookie"), NOW) == office.ana
        assert ring.in_session(digest_of("other"), NOW) is None
        assert ring.in_session(digest_of("cookie"), NOW + CLAIM) is None
        ring.revoke(office.ana.id, NOW)
        assert ring.in_session(digest_of("cookie"), NOW) is None


class TestLists:
    def test_filters_choose(self, office: Office) -> None:
        (old,) = send(office.engine, NewTicket(body="alt", language="de"), now=NOW - timedelta(hours=3))
        (odd,) = office.take_in("100% odd", job="triage", source="mail", external_id="7")
        assert office.ids(office.ana) == [old, odd]
        for wanted, ids in (
            ({"language": "de"}, [old]),
            ({"job": "triage"}, [odd]),
            ({"source": "mail"}, [odd]),
            ({"ticket": "7"}, [odd]),
            ({"older_s": 3600}, [old]),
            ({"reason": "creative"}, [old, odd]),
            ({"reason": "like VERSE"}, [old, odd]),
            ({"reason": "like_verse"}, []),
            ({"after": old}, [odd]),
            ({"tenant": "globex"}, []),
        ):
            assert office.ids(office.ana, **wanted) == ids, wanted

    def test_counts_and_what_an_item_says(self, office: Office) -> None:
        office.take_in("REJECT x", "Hello\n" + "y" * 1000)
        page = office.lists.page(office.ana, Wanted(), NOW)
        assert page.counts == {"open": 1, "rejected": 1, "second": 0}
        (item,) = page.items
        assert item.why == "it repeats itself like verse; its words are rare in tickets"
        assert item.excerpt.startswith("Hello\nyyy")
        assert len(item.excerpt) == 240

    def test_notes_and_history_are_told_in_full(self, office: Office) -> None:
        (ticket,) = office.take_in("Text")
        office.do(office.ben, Step.NOTE, ticket, note="I know this customer")
        office.do(office.ana, Step.ACCEPT, ticket)
        sheet = office.sheet(office.ana, ticket)
        assert [(said.reviewer, said.step, said.note) for said in sheet.decisions] == [
            ("Ben", "note", "I know this customer"),
            ("Ana", "accept", ""),
        ]
        with reading(office.engine) as connection:
            written = connection.scalar(sa.select(sa.func.count()).select_from(history))
        assert len(sheet.history) == written == 2
