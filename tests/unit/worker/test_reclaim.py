"""When memory is reclaimed, and how far down the ladder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.policy.reclaim import CALM_S, LADDER, PAUSE_S, Ladder, Limits, Reclaim, Signs, trouble


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        (Signs(failed_batches=3), "3 batches failed in a row"),
        (Signs(failed_batches=2), ""),
        (Signs(fragmentation=0.26), "26% of the allocator's memory is in pieces"),
        (Signs(fragmentation=0.25), ""),
        (Signs(timeouts=0.2, requests=100), "20% of the latest 100 requests ran out of time"),
        (Signs(timeouts=0.1, requests=100), ""),
        (Signs(timeouts=0.5, requests=2), ""),
    ],
)
def test_the_three_triggers(signs: Signs, words: str) -> None:
    assert trouble(signs, Limits()) == words


def test_the_ladder_goes_on_only_while_the_trouble_lasts() -> None:
    ladder = Ladder()
    taken = [ladder.next("it failed", now_s) for now_s in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0)]
    assert taken == [LADDER[0], None, *LADDER[1:], Reclaim.RELOAD]
    assert ladder.next("", 100.0) is None
    assert ladder.next("it failed", 5.0 + CALM_S) is LADDER[0]


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 3 * CALM_S)), max_size=60))
def test_no_step_is_skipped_and_none_comes_before_its_effect_could_be_seen(course: list[tuple[bool, float]]) -> None:
    ladder, now_s, last = Ladder(), 0.0, None
    for failing, passed_s in course:
        now_s += passed_s
        step = ladder.next("it failed" if failing else "", now_s)
        assert failing or step is None
        if step is not None:
            if last is not None:
                place, at_s = last
                assert now_s - at_s >= PAUSE_S
                assert LADDER.index(step) in (0, min(place + 1, len(LADDER) - 1))
            last = LADDER.index(step), now_s
