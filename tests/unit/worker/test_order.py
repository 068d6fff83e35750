"""Who enters a free slot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.policy.order import MOST_AHEAD, ahead, enter_now

ranks = st.lists(st.integers(0, 4), max_size=40).map(sorted)


@given(st.integers(0, 40), ranks, ranks)
def test_no_one_enters_before_someone_more_urgent_unless_there_is_a_slot_for_both(
    free: int, ready: list[int], starting: list[int]
) -> None:
    entering = enter_now(free, ready, starting)
    assert 0 <= entering <= min(free, len(ready))
    if entering:
        more_urgent = sum(rank < ready[entering - 1] for rank in starting)
        assert entering + more_urgent <= free


@given(st.integers(0, 40), ranks, ranks)
def test_no_slot_stays_free_that_nobody_more_urgent_is_coming_for(
    free: int, ready: list[int], starting: list[int]
) -> None:
    entering = enter_now(free, ready, starting)
    if entering < min(free, len(ready)):
        assert entering + sum(rank < ready[entering] for rank in starting) >= free


def test_an_urgent_one_that_is_being_started_keeps_its_slot() -> None:
    assert enter_now(1, ready=[3, 3], starting=[0]) == 0
    assert enter_now(2, ready=[3, 3], starting=[0]) == 1
    assert enter_now(1, ready=[0, 3], starting=[3]) == 1


@given(st.integers(1, 256), st.floats(0, 100), st.floats(0, 10))
def test_never_more_ahead_than_the_next_batch(slots: int, slot_s: float, start_s: float) -> None:
    assert 0 <= ahead(slots, slot_s, start_s) <= MOST_AHEAD * slots


def test_ahead_is_what_comes_free_while_one_starts() -> None:
    assert ahead(8, slot_s=0.0, start_s=0.01) == 0  # nobody knows yet
    assert ahead(8, slot_s=5.0, start_s=0.01) == 0  # a model: a ticket waits where any worker may take it
    assert ahead(32, slot_s=0.1, start_s=0.01) == 3
    assert ahead(32, slot_s=0.0001, start_s=0.01) == 96  # nothing computed: several batches
