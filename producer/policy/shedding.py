"""Who is turned away at the door while there is too much to do. Pure: what was measured in, a verdict out.

The order is the same whatever is short: first the backfill is let in more slowly, then low, normal and high tickets are
told when to come back. Urgent ones are turned away last of all, and only where the processor itself has no time left.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from schemas.ticket import Priority

SLOWER_AT = 0.5
"""From this share of its longest wait on, live work has the backfill slowed down."""

SLOWEST = 0.1

MEMORY_S = 60.0
"""The drain's rate is what was seen over about so long."""

ORDER = (Priority.BACKFILL, Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.URGENT)


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What waits, and how fast it is worked off.

    Attributes:
        queued: tickets on their queues, by priority.
        per_s: tickets that leave their slots a second; None while that is not known.
    """

    queued: Mapping[Priority, int]
    per_s: float | None

    def wait_s(self, priority: Priority) -> float:
        """How long a ticket of this priority that came now would wait; 0 while nobody can say."""
        if self.per_s is None:
            return 0.0
        ahead = sum(count for each, count in self.queued.items() if each.rank <= priority.rank)
        return ahead / max(self.per_s, 1e-3)


class Turned(msgspec.Struct, frozen=True):
    """A ticket that is not taken in now."""

    why: str
    retry_after_s: float


class DrainRate:
    """How fast tickets leave their slots, from a number that only grows. Nothing is said before any has left one."""

    def __init__(self) -> None:
        self._last: tuple[float, int] | None = None
        self._per_s: float | None = None

    def seen(self, ended: int, waiting: int, now_s: float) -> float | None:
        """Tickets a second. What is not worked off because nothing waits says nothing of how fast it would be.

        Args:
            ended: attempts that the ledger knows of, ever.
            waiting: tickets that are queued.
        """
        if self._last is not None and now_s > self._last[0]:
            passed_s = now_s - self._last[0]
            rate = max(0, ended - self._last[1]) / passed_s
            if self._per_s is None:
                self._per_s = rate or None
            elif waiting or rate > self._per_s:
                self._per_s += min(1.0, passed_s / MEMORY_S) * (rate - self._per_s)
        self._last = now_s, ended
        return self._per_s


def turned_by_wait(backlog: Backlog, priority: Priority, longest_s: float) -> Turned | None:
    """Whether a ticket would wait for too long.

    Args:
        longest_s: the longest wait for its priority; 0: any.
    """
    wait_s = backlog.wait_s(priority)
    if not longest_s or wait_s <= longest_s:
        return None
    why = f"{priority.value} tickets would wait about {wait_s:.0f} s now, over the {longest_s:.0f} s that are allowed"
    return Turned(why, min(3600.0, max(1.0, wait_s - longest_s)))


def turned_by_processor(backlog: Backlog, priority: Priority, level: int, why: str) -> Turned | None:
    """Whether the processor has no time for a ticket.

    Args:
        level: how many priorities, from the least urgent on, are turned away.
    """
    if ORDER.index(priority) >= level:
        return None
    wait_s = backlog.wait_s(Priority.HIGH)
    return Turned(f"{priority.value} tickets are turned away: {why}", min(600.0, max(5.0, wait_s)))


def backfill_share(backlog: Backlog, longest_s: Mapping[Priority, float]) -> float:
    """How much of its window the backfill gets: all while live work is quick, a tenth as it nears its longest wait."""
    shares = [backlog.wait_s(priority) / wait_s for priority, wait_s in longest_s.items() if wait_s]
    worst = max(shares, default=0.0)
    return 1.0 if worst <= SLOWER_AT else max(SLOWEST, 1.0 - (worst - SLOWER_AT) / (1.0 - SLOWER_AT))


class Busy:
    """How busy the processor has been, as a level: so many priorities are turned away.

    Over the threshold for the duration, the level rises by two (backfill and low; normal and high), then to all. Ten
    points under it for as long, it falls by one step at a time: whoever is let in first shows whether more can be.

    Args:
        threshold: share of the processors' time; at 1 the level never rises.
    """

    STEPS = (0, 2, 4, 5)
    HYSTERESIS = 0.1

    def __init__(self, threshold: float, duration_s: float) -> None:
        self._threshold = threshold
        self._duration_s = duration_s
        self._step = 0
        self._over_s: float | None = None
        self._under_s: float | None = None

    @property
    def level(self) -> int:
        """Priorities that are turned away."""
        return self.STEPS[self._step]

    @property
    def easing(self) -> bool:
        """It was higher, and whether it can stay where it is has not been seen for long enough."""
        return self._step > 0 and self._under_s is not None

    def sample(self, share: float, now_s: float) -> int:
        """The level now."""
        if share > self._threshold:
            self._under_s = None
            self._over_s = now_s if self._over_s is None else self._over_s
            if now_s - self._over_s >= self._duration_s and self._step < len(self.STEPS) - 1:
                self._step, self._over_s = self._step + 1, now_s
        elif share <= self._threshold - self.HYSTERESIS:
            self._over_s = None
            self._under_s = now_s if self._under_s is None else self._under_s
            if now_s - self._under_s >= self._duration_s and self._step:
                self._step, self._under_s = self._step - 1, now_s
        else:
            self._over_s = self._under_s = None
        return self.level

    def force(self, opened: bool) -> None:
        """A person opened it (to its first step) or closed it."""
        self._step = max(1, self._step) if opened else 0
        self._over_s = self._under_s = None
