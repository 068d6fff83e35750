"""The device's breaker: while it is open, tickets are answered on the processor. Belongs to the consumer thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from schemas.breaker import Breaker, Mode, closed, probing, tripped
from schemas.circuit_breaker import GpuBreakerSettings
from workers.policy.pressure import Pressure, Reading, Relief
from workers.ports import Load
from workers.sizing import Sizing
from workers.slots import Slots
from workers.upstreams import News

logger = logging.getLogger(__name__)

LONGEST = 20
"""Times its duration: the longest that it stays open before the device is tried again."""

PROBE_LASTS = timedelta(days=1)
"""Nobody else can try this worker's device: its probe is over when the device is well, or in trouble again."""


class Device:
    """Watches the device that the engine computes on, halves, reclaims, and at last leaves it for a while.

    Args:
        name: of the breaker in the ledger.
        tell: has the ledger told of a change.
    """

    def __init__(
        self, name: str, settings: GpuBreakerSettings, slots: Slots, sizing: Sizing, tell: Callable[[News], None]
    ) -> None:
        self._name = name
        self._lasts = timedelta(seconds=settings.duration)
        self._pressure = Pressure(
            settings.memory_threshold / 100, settings.utilization_threshold / 100, settings.duration
        )
        self._slots = slots
        self._sizing = sizing
        self._tell = tell
        self._breaker: Breaker | None = None

    def learn(self, breakers: Mapping[str, Breaker]) -> None:
        """What the ledger says: somebody may have opened or closed the breaker by hand, or it was open before us."""
        known = breakers.get(self._name)
        if known is None or (self._breaker is not None and known.since <= self._breaker.since):
            return
        if (known.mode is Mode.OPEN) != (self._breaker is not None and self._breaker.mode is Mode.OPEN):
            self._slots.use_device(known.mode is not Mode.OPEN)
            self._pressure.begin()
        self._breaker = known

    def loaded(self, load: Load, used: int, now_s: float, now: datetime) -> None:
        """The engine's load was measured."""
        breaker = self._breaker or Breaker(name=self._name, since=now)
        if breaker.mode is Mode.OPEN:
            if breaker.wants_probe(now):
                logger.warning("the device is tried again")
                self._change(lambda known: probing(known, self._name, PROBE_LASTS, now), breaker)
                self._pressure.begin()
                self._slots.use_device(True)
            return
        if load.device == "cpu":
            return
        reading = Reading(memory=load.memory_share, utilization=load.utilization, slower=self._sizing.slower)
        relief = self._pressure.sample(reading, now_s)
        if relief is Relief.HALVE:
            self._sizing.too_many(used, now_s)
        elif relief is Relief.RECLAIM:
            self._slots.reclaim()
        elif relief is Relief.OPEN:
            why = f"memory {load.memory_share:.0%}, utilisation {load.utilization:.0%}, after halving and reclaiming"
            self._change(lambda known: tripped(known, why, self._lasts, LONGEST * self._lasts, now), breaker)
            self._slots.use_device(False)
        elif breaker.mode is Mode.HALF_OPEN and self._pressure.well(now_s):
            self._change(lambda known: closed(known, now), breaker)

    def _change(self, change: Callable[[Breaker], Breaker], breaker: Breaker) -> None:
        self._breaker = change(breaker)
        self._tell(News(self._name, change))
