"""When memory is reclaimed, and by which step. Pure: signs and times in, a step out.

The steps go from what costs nothing to what costs a pause. Each is taken only if the trouble is still there after the
one before it; after a while of calm they begin with the first again.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

PAUSE_S = 1.0
"""A step's effect is measured before the next is taken."""

CALM_S = 60.0

LEAST_REQUESTS = 20
"""A share of fewer requests than this says nothing."""


class Reclaim(StrEnum):
    """A step of the ladder, in the words that the log has for it."""

    PREFIXES = "idle prefixes dropped"
    GARBAGE = "garbage collected"
    CACHE = "the allocator's cache emptied"
    HALVE = "slots halved"
    RELOAD = "the model loaded anew"


LADDER = tuple(Reclaim)


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen.

    Attributes:
        failed_batches: that failed one after another, with none between them that went well.
        fragmentation: share of the memory that the allocator holds but can give to nobody.
        timeouts: share of the latest requests that ran out of time.
        requests: how many those are.
    """

    failed_batches: int = 0
    fragmentation: float = 0.0
    timeouts: float = 0.0
    requests: int = 0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What is trouble; shares from 0 to 1."""

    failed_batches: int = 3
    fragmentation: float = 0.25
    timeouts: float = 0.1


def trouble(signs: Signs, limits: Limits) -> str:
    """Why memory should be reclaimed; empty if it should not."""
    if signs.failed_batches >= limits.failed_batches:
        return f"{signs.failed_batches} batches failed in a row"
    if signs.fragmentation > limits.fragmentation:
        return f"{signs.fragmentation:.0%} of the allocator's memory is in pieces"
    if signs.requests >= LEAST_REQUESTS and signs.timeouts > limits.timeouts:
        return f"{signs.timeouts:.0%} of the latest {signs.requests} requests ran out of time"
    return ""


class Ladder:
    """Where we are on it."""

    def __init__(self) -> None:
        self._taken = 0
        self._taken_s = float("-inf")

    def next(self, why: str, now_s: float) -> Reclaim | None:
        """The step to take now.

        Args:
            why: the trouble; empty if there is none.
        """
        if now_s - self._taken_s >= CALM_S:
            self._taken = 0
        if not why or now_s - self._taken_s < PAUSE_S:
            return None
        step = LADDER[min(self._taken, len(LADDER) - 1)]
        self._taken, self._taken_s = self._taken + 1, now_s
        return step
