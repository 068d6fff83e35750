"""A device under pressure: halve, reclaim, and only then the breaker. Pure; times are given."""

from __future__ import annotations

from enum import Enum, auto

import msgspec

HYSTERESIS = 0.1
"""A device is well again only this far under the threshold that it was over."""


class Relief(Enum):
    """What is done about it, in this order: each when what came before it has not helped."""

    HALVE = auto()
    RECLAIM = auto()
    OPEN = auto()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured; shares from 0 to 1.

    Attributes:
        slower: steps take clearly longer than they used to.
    """

    memory: float
    utilization: float
    slower: bool


class Pressure:
    """How long a device has been over its thresholds, or well under them.

    Args:
        memory, utilization: the thresholds. Utilisation counts only while steps get slower: by itself it is what a
            device is for.
        duration_s: over a threshold for so long, the breaker opens; well under for so long, it may close.
    """

    def __init__(self, memory: float, utilization: float, duration_s: float) -> None:
        self._memory = memory
        self._utilization = utilization
        self._duration_s = duration_s
        self.begin()

    def begin(self) -> None:
        """Nothing is known any more: the device was left alone."""
        self._over_s: float | None = None
        self._under_s: float | None = None
        self._relieved = 0

    def sample(self, reading: Reading, now_s: float) -> Relief | None:
        """What to do now."""
        busy = reading.slower and reading.utilization > self._utilization
        if reading.memory <= self._memory and not busy:
            self._over_s, self._relieved = None, 0
            well = reading.memory <= self._memory - HYSTERESIS
            self._under_s = (now_s if self._under_s is None else self._under_s) if well else None
            return None
        self._under_s = None
        self._over_s = now_s if self._over_s is None else self._over_s
        after = (0.0, 0.5, 1.0)  # of the duration: half of it is for the halving to help, half for the reclaiming
        if self._relieved == len(after) or now_s - self._over_s < after[self._relieved] * self._duration_s:
            return None
        self._relieved += 1
        return tuple(Relief)[self._relieved - 1]

    def well(self, now_s: float) -> bool:
        """It has been well under its thresholds for long enough."""
        return self._under_s is not None and now_s - self._under_s >= self._duration_s
