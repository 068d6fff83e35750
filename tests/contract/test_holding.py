"""A ticket that is in review or parked holds the later ones of its conversation for a bounded time only."""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas.ledger import Move, lock, move, writing
from schemas.states import State
from tests.contract.desk import LATER, NOW, Desk, new

HOLD = timedelta(minutes=5)


def to(desk: Desk, ticket: str, state: State) -> None:
    with writing(desk.engine) as connection:
        move(connection, [Move(lock(connection, [ticket])[ticket], state, changes={"due_at": None})], NOW)


def due(desk: Desk) -> list[str]:
    return [stub.id for stub in desk.outbox.unpublished(100, LATER)]


def pass_by(desk: Desk) -> int:
    return desk.books.let_pass(LATER - HOLD, 100, LATER)


@pytest.fixture
def talk(desk: Desk) -> list[str]:
    """Three tickets of one conversation, the first of them in review."""
    ids = [desk.take(new(str(number), conversation="c"))[0].ticket_id for number in range(3)]
    to(desk, ids[0], State.IN_REVIEW)
    return ids


def test_nothing_passes_before_its_time(desk: Desk, talk: list[str]) -> None:
    assert desk.books.let_pass(NOW - timedelta(seconds=1), 100, NOW) == 0
    assert due(desk) == []
    assert len(talk) == 3


def test_after_it_they_pass_one_by_one_in_their_order(desk: Desk, talk: list[str]) -> None:
    assert pass_by(desk) == 1
    assert due(desk) == [talk[1]]
    assert pass_by(desk) == 0
    desk.to(talk[1], State.RUNNING)
    assert pass_by(desk) == 0
    desk.to(talk[1], State.ANSWERED)
    assert pass_by(desk) == 1
    assert due(desk) == [talk[2]]


def test_a_parked_one_holds_no_longer_than_that(desk: Desk) -> None:
    first, second = (desk.take(new(str(number), conversation="c"))[0].ticket_id for number in range(2))
    desk.to(first, State.RUNNING)
    to(desk, first, State.PARKED)
    assert pass_by(desk) == 1
    assert due(desk) == [second]


def test_one_that_runs_holds_the_others_as_long_as_it_runs(desk: Desk) -> None:
    first, _ = (desk.take(new(str(number), conversation="c"))[0].ticket_id for number in range(2))
    desk.to(first, State.RUNNING)
    assert pass_by(desk) == 0


def test_those_without_a_conversation_have_nothing_to_do_with_each_other(desk: Desk) -> None:
    (first,) = desk.take(new("one"))
    to(desk, first.ticket_id, State.IN_REVIEW)
    desk.take(new("two"))
    assert pass_by(desk) == 0
