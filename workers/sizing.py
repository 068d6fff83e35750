"""The number of slots: what was measured, put to a rule."""

from __future__ import annotations

import logging
import math
from collections import deque

from schemas.settings import BatchSettings
from workers.policy.batch_size import RULES, Limits, Reading, cap_of
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
        self._out_of_memory = False
        self._out_of_memory_s = -math.inf
        self._steps: deque[float] = deque(maxlen=STEPS_KEPT)

    def started(self, start_s: float) -> None:
        """A ticket may enter, so long after it was reserved."""
        self.start_s += SMOOTHING * (start_s - self.start_s)

    def out_of_memory(self, now_s: float) -> None:
        """The device had too little memory for the tickets in their slots. The next decision answers to it."""
        self._out_of_memory, self._out_of_memory_s = True, now_s

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
        ordered = sorted(self._steps)
        p95_s = ordered[int(0.95 * (len(ordered) - 1))]
        self._usual_s += (USUAL_SMOOTHING if self._usual_s else 1.0) * (p95_s - self._usual_s)
        reading = Reading(
            size=self.size,
            memory_share=load.memory_share,
            p95_s=p95_s,
            qps=self._ended / max(now_s - self._since_s, 1e-3),
            since_change_s=now_s - self._changed_s,
            used=self._used,
            usual_s=self._usual_s,
            out_of_memory=self._out_of_memory,
            since_out_of_memory_s=now_s - self._out_of_memory_s,
        )
        self._ended, self._used, self._since_s = 0, 0, now_s
        self._out_of_memory = False
        size = max(1, self._rule(reading, self._limits(load)))
        if size != self.size:
            logger.info(
                "slots %d -> %d (memory %.0f %%, p95 step %.0f ms, %.1f tickets/s)",
                self.size,
                size,
                100 * reading.memory_share,
                1000 * reading.p95_s,
                reading.qps,
            )
            self.size, self._changed_s = size, now_s
            # How long steps took with another size says little of this one.
            self._steps.clear()
            self._usual_s = 0.0

    def _limits(self, load: Load) -> Limits:
        settings = self._settings
        # Who starts with more slots than the device's usual cap means them.
        usual = max(settings.start, cap_of(load.memory_total_bytes))
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
