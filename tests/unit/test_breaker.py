"""A breaker's modes, whatever is done to it in whatever order, and the settings as their users write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.breaker import Breaker, Mode, closed, cooling, probing, tripped
from schemas.errors import SettingRefused
from schemas.settings import load_settings

NOW = datetime(2026, 12, 1, tzinfo=UTC)
OPENS, LONGEST, PROBE = timedelta(seconds=10), timedelta(seconds=300), timedelta(seconds=30)

steps = st.lists(
    st.tuples(st.sampled_from(["trip", "probe a", "probe b", "close", "cool"]), st.floats(0, 400)), max_size=40
)


@given(steps)
def test_one_probe_at_a_time_and_none_before_its_time(steps: list[tuple[str, float]]) -> None:
    now, breaker = NOW, Breaker(name="upstream:x", since=NOW)
    for step, passed_s in steps:
        now += timedelta(seconds=passed_s)
        before = breaker
        if step == "trip":
            breaker = tripped(breaker, "it failed", OPENS, LONGEST, now)
            assert breaker.mode is Mode.OPEN
            assert breaker.until is not None
            assert before.mode is Mode.OPEN or OPENS <= breaker.until - now <= LONGEST
        elif step == "close":
            breaker = closed(breaker, now)
            assert breaker.lets_pass(now)
        elif step == "cool":
            breaker = cooling(breaker, now + OPENS)
            assert not breaker.lets_pass(now)
        else:
            breaker = probing(breaker, step[-1], PROBE, now)
            if breaker.probe != before.probe:
                assert before.until is None or now >= before.until
                assert not before.cools(now)
        assert bool(breaker.probe) == (breaker.mode is Mode.HALF_OPEN)


def test_each_failed_probe_keeps_it_open_for_twice_as_long() -> None:
    breaker, now, lasts = Breaker(name="upstream:x", since=NOW), NOW, []
    for _ in range(7):
        breaker = tripped(breaker, "503", OPENS, LONGEST, now)
        assert breaker.until is not None
        lasts.append((breaker.until - now).total_seconds())
        now = breaker.until
        breaker = probing(breaker, "a", PROBE, now)
    assert lasts == [10, 20, 40, 80, 160, 300, 300]


def test_the_documented_snippet_loads_as_it_stands() -> None:
    written = """{"circuit_breaker": {"cpu": {"threshold": 80, "duration": "1m", "action": "reject_new"},
        "gpu": {"memory_threshold": 90, "utilization_threshold": 95, "action": "fallback_to_cpu"}}}"""
    found = load_settings(json.loads(written), {}).circuit_breaker
    assert (found.cpu.threshold, found.cpu.duration, found.cpu.action) == (80, 60, "reject_new")
    assert (found.gpu.memory_threshold, found.gpu.utilization_threshold) == (90, 95)


def test_no_percentage_over_a_hundred() -> None:
    with pytest.raises(SettingRefused, match=r"circuit_breaker\.cpu\.threshold.*more than the whole"):
        load_settings({"circuit_breaker": {"cpu": {"threshold": 180}}}, {})
