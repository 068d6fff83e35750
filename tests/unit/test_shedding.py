"""Who is turned away while there is too much to do, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.policy.shedding import (
    ORDER,
    Backlog,
    Busy,
    DrainRate,
    backfill_share,
    turned_by_processor,
    turned_by_wait,
)
from schemas.ticket import Priority

queues = st.fixed_dictionaries({priority: st.integers(0, 10**6) for priority in Priority})
rates = st.none() | st.floats(0, 1e4)


@given(queues, rates, st.sampled_from(list(Priority)), st.floats(0, 1e5))
def test_a_ticket_is_turned_away_only_if_it_would_wait_too_long(
    queued: dict[Priority, int], per_s: float | None, priority: Priority, longest_s: float
) -> None:
    backlog = Backlog(queued=queued, per_s=per_s)
    turned = turned_by_wait(backlog, priority, longest_s)
    assert (turned is not None) == (longest_s > 0 and backlog.wait_s(priority) > longest_s)
    if turned is not None:
        assert turned.retry_after_s >= 1
        assert priority.value in turned.why


@given(queues, rates)
def test_a_more_urgent_ticket_never_waits_longer(queued: dict[Priority, int], per_s: float | None) -> None:
    backlog = Backlog(queued=queued, per_s=per_s)
    waits = [backlog.wait_s(priority) for priority in sorted(Priority, key=lambda each: each.rank)]
    assert waits == sorted(waits)


def test_nothing_is_turned_away_before_anything_was_worked_off() -> None:
    backlog = Backlog(queued={Priority.NORMAL: 10**6}, per_s=DrainRate().seen(0, 10**6, 1.0))
    assert turned_by_wait(backlog, Priority.NORMAL, 1.0) is None


def test_the_rate_follows_what_ends() -> None:
    rate = DrainRate()
    for second in range(600):
        seen = rate.seen(50 * second, 9, float(second))
    assert seen == pytest.approx(50, rel=0.01)
    for second in range(600, 1200):
        seen = rate.seen(50 * 599, 0, float(second))
    assert seen == pytest.approx(50, rel=0.01)  # nothing waits: as fast as ever, for all that is known
    for second in range(1200, 1800):
        seen = rate.seen(50 * 599, 9, float(second))
    assert seen is not None
    assert seen < 0.1


def test_backfill_gives_way_before_live_tickets_do() -> None:
    longest_s = {Priority.LOW: 100.0, Priority.HIGH: 0.0}
    shares = [
        backfill_share(Backlog(queued={Priority.NORMAL: waiting}, per_s=1.0), longest_s)
        for waiting in range(0, 120, 10)
    ]
    assert shares[:6] == [1.0] * 6
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(0.1)


def test_the_processor_turns_away_the_least_urgent_first_and_urgent_ones_last() -> None:
    busy, backlog = Busy(0.8, 60.0), Backlog(queued={}, per_s=None)
    turned: list[list[Priority]] = []
    for second in range(0, 200, 10):
        level = busy.sample(0.95, float(second))
        turned.append([each for each in ORDER if turned_by_processor(backlog, each, level, "busy")])
    assert turned[:6] == [[]] * 6
    assert turned[6] == [Priority.BACKFILL, Priority.LOW]
    assert turned[12] == [Priority.BACKFILL, Priority.LOW, Priority.NORMAL, Priority.HIGH]
    assert turned[18] == list(ORDER)


@given(st.lists(st.floats(0, 1), max_size=100))
def test_it_closes_step_by_step_and_only_well_under_the_threshold(shares: list[float]) -> None:
    busy, before = Busy(0.8, 30.0), 0
    for number, share in enumerate(shares):
        level = busy.sample(share, 10.0 * number)
        if level < before:
            assert all(each <= 0.7 for each in shares[number - 3 : number + 1])
            assert Busy.STEPS.index(before) - Busy.STEPS.index(level) == 1
        if level > before:
            assert all(each > 0.8 for each in shares[number - 3 : number + 1])
        before = level


def test_a_threshold_of_a_hundred_never_opens() -> None:
    busy = Busy(1.0, 0.1)
    assert not any(busy.sample(1.0, float(second)) for second in range(100))
