"""The rules of batch size."""

from __future__ import annotations

import math
from itertools import groupby, pairwise
from typing import get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.settings import BatchSettings
from workers.policy.batch_size import (
    RULES,
    WARY_COOL_DOWNS,
    Limits,
    Reading,
    Rule,
    aimd,
    cap_of,
    fixed,
    gradient,
    mended,
    printed,
)

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
    used=st.integers(0, 256),
    usual_s=st.floats(0, 5),
    since_out_of_memory_s=st.floats(0, 5000) | st.just(math.inf),
)
ours = pytest.mark.parametrize("rule", [mended, aimd, gradient])
growing = pytest.mark.parametrize("rule", [aimd, gradient])


def reading(size: int = 8, memory: float = 0.5, p95_s: float = 0.1, qps: float = 0, since_s: float = 60) -> Reading:
    return Reading(size=size, memory_share=memory, p95_s=p95_s, qps=qps, since_change_s=since_s)


@ours
@given(now=readings, allowed=limits, short=st.booleans())
def test_a_size_stays_within_its_bounds(rule: Rule, now: Reading, allowed: Limits, short: bool) -> None:
    assert 1 <= rule(msgspec.structs.replace(now, out_of_memory=short), allowed) <= allowed.cap


@ours
@given(now=readings, allowed=limits)
def test_nothing_changes_during_a_cool_down(rule: Rule, now: Reading, allowed: Limits) -> None:
    if now.since_change_s < allowed.cool_down_s and now.size <= allowed.cap:
        assert rule(now, allowed) == now.size


@ours
@given(now=readings, allowed=limits)
def test_no_larger_step_is_taken_unless_memory_is_short(rule: Rule, now: Reading, allowed: Limits) -> None:
    if now.memory_share <= allowed.memory_share and now.size <= allowed.cap:
        assert abs(rule(now, allowed) - now.size) <= allowed.largest_step


@ours
@given(now=readings, allowed=limits)
def test_nothing_grows_while_memory_or_latency_is_over(rule: Rule, now: Reading, allowed: Limits) -> None:
    if now.memory_share > allowed.memory_share or now.p95_s > allowed.p95_s:
        assert rule(now, allowed) <= now.size


@ours
@given(now=readings, allowed=limits)
def test_out_of_memory_halves_at_once(rule: Rule, now: Reading, allowed: Limits) -> None:
    short = msgspec.structs.replace(now, out_of_memory=True, since_out_of_memory_s=0)
    assert rule(short, allowed) == max(1, min(now.size // 2, allowed.cap))


@growing
@given(now=readings, allowed=limits)
def test_nothing_grows_unless_every_slot_is_used_and_memory_has_long_been_enough(
    rule: Rule, now: Reading, allowed: Limits
) -> None:
    wary = now.since_out_of_memory_s < WARY_COOL_DOWNS * allowed.cool_down_s
    if now.used < now.size or now.memory_share >= allowed.memory_share_to_grow or wary:
        assert rule(now, allowed) <= now.size


@growing
@given(
    fixed_s=st.floats(0.001, 0.5),
    row_s=st.floats(0.0001, 0.3),
    start=st.integers(1, 64),
    cap=st.integers(1, 64),
)
def test_a_steady_load_finds_a_size_and_keeps_it(
    rule: Rule, fixed_s: float, row_s: float, start: int, cap: int
) -> None:
    allowed, size, usual_s = Limits(cap=cap), min(start, cap), 0.0
    sizes: list[int] = []
    for _ in range(200):
        step_s = fixed_s + row_s * size
        usual_s += (0.3 if usual_s else 1.0) * (step_s - usual_s)
        before = size
        size = rule(
            Reading(
                size=size,
                memory_share=0.5,
                p95_s=step_s,
                qps=1,
                since_change_s=30,
                used=size,
                usual_s=usual_s,
            ),
            allowed,
        )
        usual_s = usual_s if size == before else 0.0
        sizes.append(size)
    moves = [after - before for before, after in pairwise(sizes) if after != before]
    assert [up for up, _ in groupby(move > 0 for move in moves)] in ([], [True], [False], [False, True])
    assert len(set(sizes[-50:])) == 1
    assert fixed_s + row_s * size <= allowed.p95_s or size == 1


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


@growing
def test_a_full_batch_with_room_grows_though_few_tickets_end(rule: Rule) -> None:
    full = msgspec.structs.replace(reading(qps=0.5), used=8)
    assert 8 < rule(full, Limits(cap=32)) <= 12


@growing
def test_a_batch_grows_only_as_far_as_its_steps_stay_short(rule: Rule) -> None:
    full = msgspec.structs.replace(reading(p95_s=0.88), used=8)
    assert rule(full, Limits(cap=32)) == 9


def test_gradient_has_fewer_slots_once_steps_take_much_longer_than_usual() -> None:
    slow = msgspec.structs.replace(reading(size=16, p95_s=0.4), usual_s=0.2)
    assert (gradient(slow, Limits()), aimd(slow, Limits())) == (12, 16)


def test_every_rule_has_a_name_that_the_settings_know() -> None:
    assert set(RULES) == set(get_args(get_type_hints(BatchSettings)["policy"]))


@pytest.mark.parametrize(("gigabytes", "cap"), [(24, 16), (79, 16), (80, 32), (141, 32)])
def test_the_cap_follows_the_device(gigabytes: int, cap: int) -> None:
    assert cap_of(gigabytes * 10**9) == cap
