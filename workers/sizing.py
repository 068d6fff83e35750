"""The number of slots: what was measured, put to a rule."""

from __future__ import annotations

import logging
import math
from collections import deque

from schemas.settings import BatchSettings
from workers.policy.batch_size import RULES, TOLERANCE, Limits, Reading, cap_of
from workers.ports import Load

logger = logging.getLogger(__name__)

STEPS_KEPT = 256
SMOOTHING = 0.2
USUAL_SMOOTHING = 0.01
"""Decisions are about a second apart: what is usual is the last minutes."""


class Sizing:
    """Measures steps and turns, and decides about once a second, when the device was measured too.

    Attributes:
        size: slots to use now; at least 1 whatever the rule says.
        slot_s: how long a ticket stays in a slot, lately; 0 before the first.
        start_s: how long it takes from reserving a ticket until it may enter, lately.
    """

    def __init__(self, settings: BatchSettings, now_s: float) -> None:
        self.slot_s = 0.0
        self.start_s = 0.0
        self.size = settings.start if settings.cap is None else min(settings.start, settings.cap)
        self._settings = settings
        self._rule = RULES[settings.policy]
        self._changed_s = self._since_s = now_s
        self._ended = self._used = 0
        self._usual_s = 0.0
        self._device_bytes = 0
        self._out_of_memory_s = -math.inf
        self._steps: deque[float] = deque(maxlen=STEPS_KEPT)

    def started(self, start_s: float) -> None:
        """A ticket may enter, so long after it was reserved."""
        self.start_s += SMOOTHING * (start_s - self.start_s)

    @property
    def slower(self) -> bool:
        """Steps lately take clearly longer than they used to with this size."""
        return self._usual_s > 0 and self._p95_s() > TOLERANCE * self._usual_s

    def _p95_s(self) -> float:
        ordered = sorted(self._steps)
        return ordered[int(0.95 * (len(ordered) - 1))] if ordered else 0.0

    def too_many(self, used: int, now_s: float) -> None:
        """The device had too little memory for so many slots, or is in some other trouble that fewer may end."""
        self._out_of_memory_s = now_s
        reading = Reading(
            size=min(self.size, used), memory_share=1.0, p95_s=0.0, qps=0.0, since_change_s=0.0, out_of_memory=True
        )
        self._set(max(1, self._rule(reading, self._limits(self._device_bytes))), now_s, "too little memory")

    def stepped(self, step_s: float, used: int, slots_s: list[float], load: Load | None, now_s: float) -> None:
        """The engine took a step with ``used`` slots; tickets left that had been in theirs for ``slots_s`` seconds."""
        self._steps.append(step_s)
        self._used = max(self._used, used)
        self._ended += len(slots_s)
        if slots_s:
            mean_s = max(sum(slots_s) / len(slots_s), 1e-6)
            self.slot_s += (SMOOTHING if self.slot_s else 1.0) * (mean_s - self.slot_s)
        if load is not None:
            self._decide(load, now_s)

    def _decide(self, load: Load, now_s: float) -> None:
        p95_s = self._p95_s()
        self._usual_s += (USUAL_SMOOTHING if self._usual_s else 1.0) * (p95_s - self._usual_s)
        reading = Reading(
            size=self.size,
            memory_share=load.memory_share,
            p95_s=p95_s,
            qps=self._ended / max(now_s - self._since_s, 1e-3),
            since_change_s=now_s - self._changed_s,
            used=self._used,
            usual_s=self._usual_s,
            since_out_of_memory_s=now_s - self._out_of_memory_s,
        )
        self._ended, self._used, self._since_s = 0, 0, now_s
        self._device_bytes = load.memory_total_bytes
        why = f"memory {reading.memory_share:.0%}, p95 step {1000 * reading.p95_s:.0f} ms, {reading.qps:.1f} tickets/s"
        self._set(max(1, self._rule(reading, self._limits(self._device_bytes))), now_s, why)

    def _set(self, size: int, now_s: float, why: str) -> None:
        if size != self.size:
            logger.info("slots %d -> %d (%s)", self.size, size, why)
            self.size, self._changed_s = size, now_s
            # How long steps took with another size says little of this one.
            self._steps.clear()
            self._usual_s = 0.0

    def _limits(self, device_bytes: int) -> Limits:
        settings = self._settings
        # Who starts with more slots than the device's usual cap means them.
        usual = max(settings.start, cap_of(device_bytes))
        return Limits(
            start=settings.start,
            cap=settings.cap or usual,
            memory_share=settings.memory_share,
            memory_share_to_grow=settings.memory_share_to_grow,
            p95_s=settings.p95,
            qps_to_grow=settings.qps_to_grow,
            largest_step=settings.largest_step,
            cool_down_s=settings.cool_down,
        )
