from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ForbiddenMove
from schemas.states import FINAL, MOVES, State, check_move

STATES = st.sampled_from(list(State))
BY_A_PERSON = {(State.DEAD, State.QUEUED), (State.REJECTED, State.QUEUED), (State.REJECTED, State.IN_REVIEW)}


@given(st.lists(STATES, max_size=30))
def test_whatever_is_asked_only_a_person_takes_a_ticket_out_of_a_final_state(asked: list[State]) -> None:
    state = State.RECEIVED
    for after in asked:
        before, state = state, moved(state, after)
        assert state in (before, after)
        assert not before.final or state is before or (before, state) in BY_A_PERSON


def moved(before: State, after: State) -> State:
    """Where a ticket is once it was asked to go there."""
    try:
        check_move("t", before, after)
    except ForbiddenMove:
        return before
    return after


def test_every_state_is_reached_and_every_open_one_can_end() -> None:
    def reachable(start: State) -> set[State]:
        seen, edge = {start}, [start]
        while edge:
            new = MOVES[edge.pop()] - seen
            seen |= new
            edge += new
        return seen

    assert set(MOVES) == set(State)
    assert reachable(State.RECEIVED) == set(State)
    assert all(reachable(state) & FINAL for state in State)


@pytest.mark.parametrize("state", list(State))
def test_a_ticket_is_answered_only_while_it_runs(state: State) -> None:
    if state is State.RUNNING:
        check_move("t", state, State.ANSWERED)
    else:
        with pytest.raises(ForbiddenMove, match=f"ticket t cannot go from {state} to answered"):
            check_move("t", state, State.ANSWERED)


def test_the_columns_are_wide_enough() -> None:
    assert max(len(state) for state in State) <= 9
