"""How fast senders come, counted in Redis by all processes together."""

from __future__ import annotations

import logging
from collections.abc import Callable

from limits import RateLimitItemPerSecond
from limits.errors import StorageError
from limits.storage import RedisStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from schemas.keys import RATES

log = logging.getLogger("ticketmill")

AWAY_S = 5.0
"""How long a Redis that did not answer is left alone."""


class SharedRates:
    """A sliding window for each name, which Redis forgets by itself. Only names near their limit are counted here.

    Args:
        url: as the broker's.
        monotonic_s: a clock for waits.
    """

    def __init__(self, url: str, monotonic_s: Callable[[], float]) -> None:
        uri = url.replace("redis+socket://", "redis+unix://", 1)
        self._storage = RedisStorage(uri, wrap_exceptions=True, key_prefix=RATES, socket_timeout=1.0)
        self._windows = SlidingWindowCounterRateLimiter(self._storage)
        self._monotonic_s = monotonic_s
        self._away_until_s = 0.0

    def hit(self, name: str, limit: int, window_s: float) -> bool:
        """Counts one; False once more than ``limit`` came within any ``window_s``. True while Redis is away."""
        if self._monotonic_s() < self._away_until_s:
            return True
        item = RateLimitItemPerSecond(max(1, limit), max(1, round(window_s)))
        try:
            return self._windows.hit(item, name)
        except StorageError as error:
            self._away_until_s = self._monotonic_s() + AWAY_S
            log.warning("senders are counted by this process alone for now: %s", error)
            return True
