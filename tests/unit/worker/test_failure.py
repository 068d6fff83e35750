"""What becomes of tickets that were not answered."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.outcome import Dead, Retry
from workers.policy.failure import LONGEST_DELAY_S, after_failure, company, together, worn_out

NOW = datetime(2026, 3, 1, tzinfo=UTC)
chances = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 30), st.integers(1, 30), chances)
def test_a_failed_ticket_is_tried_so_often_and_then_given_up(tries: int, most: int, jitter: float) -> None:
    outcome = after_failure("engine", "it broke", tries, most, NOW, jitter)
    assert isinstance(outcome, Dead if tries >= most else Retry)
    assert "it broke" in outcome.reason


@given(st.integers(1, 30), chances)
def test_it_waits_longer_each_time_and_never_too_long(tries: int, jitter: float) -> None:
    outcome = after_failure("engine", "x", tries, 99, NOW, jitter)
    assert isinstance(outcome, Retry)
    delay_s = (outcome.due_at - NOW).total_seconds()
    assert 0.5 <= delay_s <= LONGEST_DELAY_S
    again = after_failure("engine", "x", tries + 1, 99, NOW, jitter)
    assert isinstance(again, Retry)
    assert again.due_at >= outcome.due_at


def test_what_another_try_cannot_mend_is_given_up_at_once() -> None:
    assert after_failure("context_overflow", "9 tokens over", 1, 4, NOW, 0.5) == Dead("context_overflow: 9 tokens over")


@given(st.integers(1, 10), st.integers(1, 256))
def test_company_shrinks_to_one_before_a_ticket_is_given_up(most: int, slots: int) -> None:
    sizes = [company(lost, most, slots) for lost in range(1, most)]
    assert sizes == sorted(sizes, reverse=True)
    assert not sizes or sizes[-1] == 1
    assert all(worn_out(lost, most) is None for lost in range(most))
    assert worn_out(most, most) is not None


@given(st.lists(st.integers(1, 6), min_size=1, max_size=40), st.integers(1, 6), st.integers(1, 64))
def test_nobody_runs_in_larger_company_than_it_may(suspects: list[int], most: int, slots: int) -> None:
    count = together(suspects, most, slots)
    assert 1 <= count <= len(suspects)
    assert all(count <= company(lost, most, slots) for lost in suspects[:count])


@pytest.mark.parametrize(
    ("suspects", "count"), [([1] * 20, 16), ([2] * 20, 8), ([1] * 3 + [3], 3), ([3] + [1] * 9, 1), ([1], 1)]
)
def test_how_many_run_together(suspects: list[int], count: int) -> None:
    assert together(suspects, most=4, slots=32) == count
