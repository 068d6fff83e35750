"""The three rules of batch size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.policy.batch_size import Limits, Reading, cap_of, fixed, mended, printed

limits = st.builds(
    Limits,
    start=st.integers(1, 64),
    cap=st.integers(1, 256),
    largest_step=st.integers(1, 16),
    cool_down_s=st.floats(0, 60),
)
readings = st.builds(
    Reading,
    size=st.integers(1, 256),
    memory_share=st.floats(0, 1),
    p95_s=st.floats(0, 5),
    qps=st.floats(0, 5000),
    since_change_s=st.floats(0, 120),
)


def reading(size: int = 8, memory: float = 0.5, p95_s: float = 0.1, qps: float = 0, since_s: float = 60) -> Reading:
    return Reading(size=size, memory_share=memory, p95_s=p95_s, qps=qps, since_change_s=since_s)


@given(readings, limits)
def test_mended_stays_within_its_bounds(now: Reading, allowed: Limits) -> None:
    assert 1 <= mended(now, allowed) <= allowed.cap


@given(readings, limits)
def test_mended_changes_nothing_while_it_cools_down(now: Reading, allowed: Limits) -> None:
    if now.since_change_s < allowed.cool_down_s and now.size <= allowed.cap:
        assert mended(now, allowed) == now.size


@given(readings, limits)
def test_mended_takes_no_larger_step_unless_memory_is_short(now: Reading, allowed: Limits) -> None:
    if now.memory_share <= allowed.memory_share and now.size <= allowed.cap:
        assert abs(mended(now, allowed) - now.size) <= allowed.largest_step


@given(readings, limits)
def test_mended_grows_whenever_the_printed_rule_means_to(now: Reading, allowed: Limits) -> None:
    busy = now.qps > allowed.qps_to_grow and now.memory_share < allowed.memory_share_to_grow
    if busy and now.p95_s <= allowed.p95_s and now.size < allowed.cap and now.since_change_s >= allowed.cool_down_s:
        assert mended(now, allowed) > now.size


@given(readings, limits)
def test_mended_never_grows_while_memory_or_latency_is_over(now: Reading, allowed: Limits) -> None:
    if now.memory_share > allowed.memory_share or now.p95_s > allowed.p95_s:
        assert mended(now, allowed) <= now.size


@pytest.mark.parametrize(
    ("now", "by_printed", "by_mended"),
    [
        (reading(memory=0.95), 4, 4),
        (reading(size=1, memory=0.95), 1, 1),
        (reading(p95_s=1.5), 6, 6),
        (reading(size=2, p95_s=1.5), 0, 1),
        (reading(size=1, p95_s=1.5), -1, 1),
        (reading(qps=2000), 8, 9),
        (reading(size=30, qps=2000), 32, 32),
        (reading(size=20), 8, 20),
        (reading(qps=2000, memory=0.8), 8, 8),
        (reading(size=64, memory=0.95), 32, 32),
    ],
)
def test_both_rules_side_by_side(now: Reading, by_printed: int, by_mended: int) -> None:
    allowed = Limits(cap=32)
    assert (printed(now, allowed), mended(now, allowed)) == (by_printed, by_mended)


def test_fixed_is_fixed() -> None:
    assert fixed(reading(memory=1.0, p95_s=9), Limits(start=20, cap=32)) == 20


@pytest.mark.parametrize(("gigabytes", "cap"), [(24, 16), (79, 16), (80, 32), (141, 32)])
def test_the_cap_follows_the_device(gigabytes: int, cap: int) -> None:
    assert cap_of(gigabytes * 10**9) == cap
