"""Halve, reclaim, breaker: in this order, and never for a device that merely earns its keep."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.policy.pressure import Pressure, Reading, Relief

FULL = Reading(memory=0.95, utilization=0.5, slower=False)
BUSY = Reading(memory=0.5, utilization=1.0, slower=False)
SLOW = Reading(memory=0.5, utilization=1.0, slower=True)
WELL = Reading(memory=0.5, utilization=0.5, slower=False)
NEARLY = Reading(memory=0.85, utilization=0.5, slower=False)


def course(readings: list[Reading]) -> list[Relief | None]:
    pressure = Pressure(0.9, 0.95, 30.0)
    return [pressure.sample(reading, 5.0 * n) for n, reading in enumerate(readings)]


def test_a_full_device_is_halved_reclaimed_and_left_in_this_order() -> None:
    assert [each for each in course([FULL] * 8) if each] == [Relief.HALVE, Relief.RECLAIM, Relief.OPEN]
    assert course([FULL] * 7)[-1] is Relief.OPEN


def test_a_busy_device_is_in_trouble_only_when_steps_get_slower() -> None:
    assert not any(course([BUSY] * 20))
    assert Relief.OPEN in course([SLOW] * 8)


def test_relief_that_helps_ends_there() -> None:
    assert [each for each in course([FULL, FULL, WELL, WELL, FULL, FULL]) if each] == [Relief.HALVE, Relief.HALVE]


def test_well_means_well_under_and_for_long_enough() -> None:
    pressure = Pressure(0.9, 0.95, 30.0)
    pressure.sample(WELL, 0.0)
    assert not pressure.well(29.0)
    pressure.sample(NEARLY, 29.0)
    assert not pressure.well(60.0)
    pressure.sample(WELL, 60.0)
    assert pressure.well(90.0)


@given(st.lists(st.sampled_from([FULL, BUSY, SLOW, WELL, NEARLY]), max_size=80))
def test_it_never_opens_before_it_was_over_for_the_whole_duration(readings: list[Reading]) -> None:
    found = course(readings)
    for at, relief in enumerate(found):
        if relief is Relief.OPEN:
            assert all(each in (FULL, SLOW) for each in readings[at - 6 : at + 1])
            assert found[:at].count(Relief.OPEN) < found[: at + 1].count(Relief.RECLAIM)
