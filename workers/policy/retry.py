"""What follows a failed attempt: another one, so many seconds from now, or what the matrix has for after the last."""

from __future__ import annotations

import msgspec

from schemas.retry_matrix import RetryRow, Then

LONGEST_BACKOFF_S = 60.0
LONGEST_WAIT_S = 3600.0
"""Who tells us to come back later than this is as good as gone: the ticket is better parked, or answered elsewhere."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an upstream said of coming back.

    Attributes:
        retry_after_s: not before so many seconds from now.
        should_retry: whether to come back at all, where it said so.
    """

    retry_after_s: float | None = None
    should_retry: bool | None = None


def after_attempt(row: RetryRow, tries: int, told: Told, chance: float) -> float | Then:
    """Seconds until the next attempt, or what to do instead of one.

    Exponential backoff with full jitter, on top of a floor: the row's own delay, or what the upstream asked for. The
    jitter spreads over half of a long floor too, so that those who were told the same do not come back together.

    Args:
        tries: attempts so far, the one that failed included; at least 1.
        chance: in [0, 1).
    """
    retries = max(1, row.retries) if told.should_retry else row.retries
    if told.should_retry is False or tries > retries or (told.retry_after_s or 0) > LONGEST_WAIT_S:
        return row.then
    backoff = min(LONGEST_BACKOFF_S, row.delay * 2 ** min(tries - 1, 20))
    floor = max(row.delay, told.retry_after_s or 0)
    return floor + chance * max(backoff, floor / 2)


class RetryBudget:
    """Keeps retries a share of the traffic, so that they never are what keeps an upstream down.

    Each first attempt pays a share of a retry in. A little is there to begin with, and never more than a minute's worth
    is kept.

    Args:
        share: retries for each first attempt.
    """

    START, MOST = 10.0, 100.0

    def __init__(self, share: float) -> None:
        self._share = share
        self._left = self.START

    def first(self) -> None:
        """A ticket is asked about for the first time."""
        self._left = min(self.MOST, self._left + self._share)

    def retry(self) -> bool:
        """Takes one retry out of it; False if there is none."""
        if self._left < 1:
            return False
        self._left -= 1
        return True
