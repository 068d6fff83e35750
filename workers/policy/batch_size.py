"""How many slots to use, from what memory and latency allow. Three rules behind one signature."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

LARGE_DEVICE_BYTES = 80 * 10**9
LARGE_DEVICE_CAP = 32
SMALL_DEVICE_CAP = 16
PRINTED_OTHERWISE = 8
LATENCY_STEP = 2
GROWTH = 1.1


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator allows. ``p95_s``, ``cool_down_s`` in seconds; shares from 0 to 1; ``qps`` in tickets/s."""

    start: int = 8
    cap: int = SMALL_DEVICE_CAP
    memory_share: float = 0.9
    memory_share_to_grow: float = 0.7
    p95_s: float = 1.0
    qps_to_grow: float = 1000.0
    largest_step: int = 4
    cool_down_s: float = 30.0


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured.

    Attributes:
        size: slots in use now.
        memory_share: of the device's memory, in use.
        p95_s: 95th percentile of the time one step of the engine takes: the part of a ticket's latency that the
            number of slots decides (how many steps it needs is decided by its answer).
        qps: tickets that ended a second.
        since_change_s: time since the size last changed.
    """

    size: int
    memory_share: float
    p95_s: float
    qps: float
    since_change_s: float


Rule = Callable[[Reading, Limits], int]


def fixed(_reading: Reading, limits: Limits) -> int:
    """Always the size to start with."""
    return min(limits.start, limits.cap)


def printed(reading: Reading, limits: Limits) -> int:
    """The rule to the letter, for comparison: it never grows from 8, forgets a good size, and may fall below 1."""
    if reading.memory_share > limits.memory_share:
        return max(1, reading.size // 2)
    if reading.p95_s > limits.p95_s:
        return reading.size - LATENCY_STEP
    if reading.qps > limits.qps_to_grow and reading.memory_share < limits.memory_share_to_grow:
        return min(limits.cap, int(reading.size * GROWTH))
    return PRINTED_OTHERWISE


def mended(reading: Reading, limits: Limits) -> int:
    """The same inputs, limits, cap, step and cool-down; grows by at least 1, never under 1, and holds what it has.

    Memory is not bound by the largest step: half as many slots is the point of halving.
    """
    if reading.since_change_s < limits.cool_down_s:
        return _within(reading.size, limits)
    if reading.memory_share > limits.memory_share:
        return _within(reading.size // 2, limits)
    step = 0
    if reading.p95_s > limits.p95_s:
        step = -min(LATENCY_STEP, limits.largest_step)
    elif reading.qps > limits.qps_to_grow and reading.memory_share < limits.memory_share_to_grow:
        step = min(max(1, int(reading.size * GROWTH) - reading.size), limits.largest_step)
    return _within(reading.size + step, limits)


RULES: dict[str, Rule] = {"fixed": fixed, "printed": printed, "mended": mended}


def cap_of(device_bytes: int) -> int:
    """The most slots that a device of this much memory is given, unless the operator says otherwise."""
    return LARGE_DEVICE_CAP if device_bytes >= LARGE_DEVICE_BYTES else SMALL_DEVICE_CAP


def _within(size: int, limits: Limits) -> int:
    return max(1, min(size, limits.cap))
