"""Less urgent work is never starved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.policy.aging import Aging

QUEUES = ("urgent", "high", "normal", "low")


def test_a_queue_that_is_passed_over_comes_up_once_a_patience() -> None:
    aging = Aging(QUEUES, patience_s=30, now_s=0)
    aging.served("high", 29)
    assert aging.due(29.9) == []
    assert aging.due(30) == ["normal", "low"]
    aging.served("normal", 30)
    assert aging.due(31) == ["low"]
    assert aging.due(59) == ["low", "high"]


@given(st.lists(st.sampled_from(QUEUES), max_size=50), st.floats(0, 1000))
def test_the_most_urgent_never_ages(served: list[str], now_s: float) -> None:
    aging = Aging(QUEUES, patience_s=1, now_s=0)
    for each in served:
        aging.served(each, now_s)
    assert "urgent" not in aging.due(now_s + 10)
