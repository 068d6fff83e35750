"""An operator's limit on tickets a second holds, and is used up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.policy.rate import Allowance


@given(st.lists(st.floats(0.001, 5), min_size=1, max_size=60), st.floats(0.1, 500))
def test_never_more_than_the_rate_and_one_second_ahead(steps_s: list[float], per_s: float) -> None:
    allowance = Allowance(0.0)
    now_s, taken = 0.0, 0
    for step_s in steps_s:
        now_s += step_s
        count = allowance.left(per_s, now_s)
        allowance.use(count)
        taken += count
        assert taken <= per_s * now_s + 1e-6


@pytest.mark.parametrize("per_s", [10.0, 0.5])
def test_whoever_asks_once_a_second_gets_it_all(per_s: float) -> None:
    allowance = Allowance(0.0)
    taken = 0
    for second in range(1, 101):
        count = allowance.left(per_s, float(second))
        allowance.use(count)
        taken += count
    assert taken == 100 * per_s
