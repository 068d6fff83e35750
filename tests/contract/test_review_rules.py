"""Whatever people order, in whatever order and however long they take: nothing is decided twice, expiry frees what was
claimed, and undo puts everything back. On every database."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy.engine import Engine

from producer.adapters.clock import utc_now
from producer.adapters.reviews import SqlReviews
from schemas.ledger import Move, lock, move, new_id, reading, writing
from schemas.review import Done, Holder, Order, Role, Step, Why
from schemas.states import State
from schemas.tables import history, reviews, tickets
from schemas.ticket import NewTicket
from tests.ground.ledgers import TestLedger
from tests.ground.reviewing import person, send

CLAIM = timedelta(minutes=5)
COUNT = 4

_engines: list[Engine] = []


@pytest.fixture
def engine(ledger: TestLedger) -> Generator[Engine]:
    """Where the machines of this test work; each has a tenant of its own."""
    _engines.append(ledger.engine)
    yield ledger.engine
    _engines.clear()


class Reviewing(RuleBasedStateMachine):
    """Two people, four tickets, a clock, and a model of what must be true."""

    @initialize()
    def open(self) -> None:
        self.engine = _engines[0]
        tenant = f"t-{new_id(utc_now())}"
        self.people: list[Holder] = [person(self.engine, name, tenant, Role.REVIEWER)[0] for name in ("Ana", "Ben")]
        self.now = datetime.fromisoformat("2026-03-01T12:00:00+00:00")
        self.ids = send(self.engine, *(NewTicket(body=f"Body {n}") for n in range(COUNT)), tenant=tenant, now=self.now)
        self.reviews = SqlReviews(self.engine, claim_for=CLAIM, undo_for=timedelta(0))
        self.claims: dict[str, tuple[int, datetime]] = {}
        self.state = dict.fromkeys(self.ids, "in_review")
        self.told: list[tuple[int, datetime, str, str]] = []  # who, when, ticket, step: what undo would take back

    def held_by_other(self, who: int, ticket: str) -> bool:
        holder, until = self.claims.get(ticket, (who, self.now))
        return holder != who and until > self.now

    def order(self, who: int, step: Step, *ids: str) -> Done:
        reason = Why.SPAM if step is Step.REJECT else Why.NONE
        return self.reviews.carry_out(self.people[who], Order(step=step, tickets=list(ids), reason=reason), self.now)

    @rule(who=st.integers(0, 1), number=st.integers(0, COUNT - 1))
    def claim(self, who: int, number: int) -> None:
        ticket = self.ids[number]
        may = self.state[ticket] == "in_review" and not self.held_by_other(who, ticket)
        assert self.order(who, Step.CLAIM, ticket).done == ([ticket] if may else [])
        if may:
            self.claims[ticket] = (who, self.now + CLAIM)

    @rule(
        who=st.integers(0, 1),
        numbers=st.lists(st.integers(0, COUNT - 1), min_size=1, unique=True),
        step=st.sampled_from([Step.ACCEPT, Step.REJECT]),
    )
    def decide(self, who: int, numbers: list[int], step: Step) -> None:
        ids = [self.ids[number] for number in numbers]
        may = [each for each in ids if self.state[each] == "in_review" and not self.held_by_other(who, each)]
        assert self.order(who, step, *ids).done == may
        for each in may:
            self.claims.pop(each, None)
            self.state[each] = "queued" if step is Step.ACCEPT else "rejected"
            self.told.append((who, self.now, each, step))
        self.now += timedelta(seconds=1)

    @rule(who=st.integers(0, 1))
    def undo(self, who: int) -> None:
        reach = self.now - timedelta(hours=1)
        mine = [entry for entry in self.told if entry[0] == who and entry[1] > reach]
        latest = max((entry[1] for entry in mine), default=None)
        expected: set[str] = set()
        for entry in [entry for entry in mine if entry[1] == latest]:
            if self.state[entry[2]] == ("queued" if entry[3] == Step.ACCEPT else "rejected"):
                expected.add(entry[2])
                self.state[entry[2]] = "in_review"
                self.told.remove(entry)
        assert set(self.order(who, Step.UNDO).done) == expected

    @rule(minutes=st.integers(1, 12))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @precondition(lambda self: "queued" in self.state.values())
    @rule()
    def a_worker_begins_one(self) -> None:
        ticket = next(each for each in self.ids if self.state[each] == "queued")
        with writing(self.engine) as connection:
            move(connection, [Move(lock(connection, [ticket])[ticket], State.RUNNING)], self.now)
        self.state[ticket] = "running"

    @invariant()
    def the_ledger_agrees_and_nothing_was_decided_twice(self) -> None:
        with reading(self.engine) as connection:
            rows = connection.execute(sa.select(tickets.c.id, tickets.c.state).where(tickets.c.id.in_(self.ids))).all()
            assert {row.id: row.state for row in rows} == self.state
            standing = connection.scalars(
                sa.select(reviews.c.ticket_id).where(reviews.c.ticket_id.in_(self.ids), reviews.c.undone_at.is_(None))
            ).all()
            assert sorted(standing) == sorted(each for each in self.ids if self.state[each] != "in_review")
            changes = connection.execute(
                sa.select(history).where(history.c.ticket_id.in_(self.ids)).order_by(history.c.id)
            ).all()
        for each in self.ids:
            way = [(change.before, change.after) for change in changes if change.ticket_id == each]
            assert way[-1][1] == self.state[each]
            assert all(one[1] == other[0] for one, other in itertools.pairwise(way))


def test_whatever_is_ordered(engine: Engine) -> None:  # noqa: ARG001  the machines find it in _engines
    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    effort = settings(max_examples=25, stateful_step_count=25, suppress_health_check=slow)
    run_state_machine_as_test(Reviewing, settings=effort)
