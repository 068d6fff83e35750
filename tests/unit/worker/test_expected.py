"""How many tokens a ticket is expected to take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.policy.expected import LEARNED, ExpectedTokens

answers = st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 1), st.integers(0, 160)), max_size=120)


@given(seen=answers, text_bytes=st.integers(0, 10_000), most_new=st.integers(1, 400))
def test_never_more_than_the_worst_case_nor_less_than_nothing(
    seen: list[tuple[int, float, int]], text_bytes: int, most_new: int
) -> None:
    expected = ExpectedTokens()
    for size, share, answer in seen:
        expected.learn("reply", size, int(size * share), answer)
    tokens = expected.of("reply", text_bytes, most_new)
    assert 0 <= tokens.mean <= text_bytes + most_new
    assert tokens.spread >= 0


def test_the_worst_case_counts_until_a_job_is_known_and_for_every_other_job() -> None:
    expected = ExpectedTokens()
    for _ in range(LEARNED - 1):
        expected.learn("reply", 400, 100, 10)
    assert expected.of("reply", 400, 160) == (560, 0)
    expected.learn("reply", 400, 100, 10)
    assert expected.of("reply", 400, 160) == pytest.approx((110, 0), abs=1e-4)
    assert expected.of("triage", 400, 160) == (560, 0)


def test_it_follows_when_answers_change() -> None:
    draw = np.random.default_rng(7)
    expected = ExpectedTokens()
    for typical in (30, 90):
        for length in draw.normal(typical, 8, 500).astype(int):
            expected.learn("reply", 400, 100, int(length))
        tokens = expected.of("reply", 400, 400)
        assert abs(tokens.mean - 100 - typical) < 5
        assert 5 < tokens.spread < 12
