"""How many slots to use, from what memory and latency allow. Five rules behind one signature.

`aimd` and `gradient` grow while every slot is in use, and only as far as a step will still be short enough: a step is
some fixed work and some a row, so twice the rows take at most twice the time. That bound is never met in practice, and
so a size that was found is kept: nothing swings around a limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

LARGE_DEVICE_BYTES = 80 * 10**9
LARGE_DEVICE_CAP = 32
SMALL_DEVICE_CAP = 16
PRINTED_OTHERWISE = 8
LATENCY_STEP = 2
GROWTH = 1.1

BACK_OFF = 0.75
"""What `aimd` keeps of its slots where a step takes too long."""
TOLERANCE = 1.5
"""How much longer than usual a step may take before `gradient` has fewer slots."""
MOST_AT_ONCE = 0.5
"""The most that `gradient` takes away for latency alone: as much as memory does."""
WARY_COOL_DOWNS = 20
"""After an out-of-memory nothing grows for so many cool-downs: what met it once is likely to meet it again."""


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
        used: the most slots in use at once since the last reading; all of them means that more could be.
        usual_s: what ``p95_s`` has been for a long time with this size; 0 if nobody knows yet.
        out_of_memory: the device had too little since the last reading.
        since_out_of_memory_s: time since it last had.
    """

    size: int
    memory_share: float
    p95_s: float
    qps: float
    since_change_s: float
    used: int = 0
    usual_s: float = 0.0
    out_of_memory: bool = False
    since_out_of_memory_s: float = math.inf


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

    Memory is not bound by the largest step: half as many slots is the point of halving. Nor does a device that had too
    little of it wait for the cool-down.
    """
    if reading.out_of_memory:
        return _within(reading.size // 2, limits)
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


def aimd(reading: Reading, limits: Limits) -> int:
    """Adds the largest step while every slot is in use; takes a quarter away where steps take too long.

    After Clipper, whose additive increase and multiplicative decrease it is.
    """
    held = _held_by_memory(reading, limits)
    if held is not None:
        return held
    if reading.p95_s > limits.p95_s:
        fewer = max(1, min(reading.size - int(reading.size * BACK_OFF), limits.largest_step))
        return _within(reading.size - fewer, limits)
    return _grown(reading, limits, limits.largest_step)


def gradient(reading: Reading, limits: Limits) -> int:
    """Adds the root of its size while steps take as long as usual, and gives up slots as they take longer.

    After Netflix's second gradient limit: the long-term latency over the latest one is the gradient.
    """
    held = _held_by_memory(reading, limits)
    if held is not None:
        return held
    accepted_s = min(limits.p95_s, TOLERANCE * reading.usual_s) if reading.usual_s else limits.p95_s
    if reading.p95_s > accepted_s:
        kept = int(reading.size * max(MOST_AT_ONCE, accepted_s / reading.p95_s))
        return _within(reading.size - max(1, min(reading.size - kept, limits.largest_step)), limits)
    return _grown(reading, limits, min(math.isqrt(reading.size), limits.largest_step))


RULES: dict[str, Rule] = {
    "fixed": fixed,
    "printed": printed,
    "mended": mended,
    "aimd": aimd,
    "gradient": gradient,
}


def cap_of(device_bytes: int) -> int:
    """The most slots that a device of this much memory is given, unless the operator says otherwise."""
    return LARGE_DEVICE_CAP if device_bytes >= LARGE_DEVICE_BYTES else SMALL_DEVICE_CAP


def _within(size: int, limits: Limits) -> int:
    return max(1, min(size, limits.cap))


def _held_by_memory(reading: Reading, limits: Limits) -> int | None:
    """The size where memory or the cool-down decides it; None where latency may."""
    if reading.out_of_memory:
        return _within(reading.size // 2, limits)
    if reading.since_change_s < limits.cool_down_s:
        return _within(reading.size, limits)
    if reading.memory_share > limits.memory_share:
        return _within(reading.size // 2, limits)
    return None


def _grown(reading: Reading, limits: Limits, step: int) -> int:
    """As many more slots as are wanted, allowed, and sure to keep a step short enough."""
    wary = reading.since_out_of_memory_s < WARY_COOL_DOWNS * limits.cool_down_s
    if reading.used < reading.size or reading.memory_share >= limits.memory_share_to_grow or wary:
        return _within(reading.size, limits)
    longest = limits.p95_s / max(reading.p95_s, 1e-9)
    foreseen = int(min(reading.size * longest, reading.size + step))
    return _within(max(reading.size, foreseen), limits)
