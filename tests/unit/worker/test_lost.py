"""What becomes of tickets that their workers were lost with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.policy.lost import company, together, worn_out


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
