"""How much there is to do, measured every second, and who is let in because of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from producer.policy.shedding import (
    Backlog,
    Busy,
    DrainRate,
    Turned,
    backfill_share,
    turned_by_processor,
    turned_by_wait,
)
from schemas.breaker import Mode
from schemas.ticket import Priority

EVERY_S = 1.0
"""Between two measurements."""


class Shown(Protocol):
    """Where the door's breaker can be seen, and opened and closed by hand."""

    def by_hand(self) -> bool | None:
        """Whether somebody has opened (True) or closed (False) it since the last look; None if nobody has."""
        ...

    def show(self, mode: Mode, reason: str, now: datetime) -> None:
        """Writes down what it is now, if that is news."""
        ...


class Load:
    """See the module. ``turn`` is one thread's; everything else may be asked from any.

    Args:
        longest_s: the longest wait by priority, in seconds; 0 or missing: any.
        share: of the processors' time, used by others than our engines since the last call; 0 to 1.
        read: queued tickets by priority, and attempts ever.
    """

    def __init__(
        self,
        longest_s: Mapping[Priority, float],
        busy: Busy,
        share: Callable[[], float],
        read: Callable[[], tuple[Mapping[Priority, int], int]],
        shown: Shown,
        monotonic_s: Callable[[], float],
        utc_now: Callable[[], datetime],
    ) -> None:
        self._longest_s = longest_s
        self._busy = busy
        self._share = share
        self._read = read
        self._shown = shown
        self._monotonic_s = monotonic_s
        self._utc_now = utc_now
        self._rate = DrainRate()
        self._backlog = Backlog(queued={}, per_s=None)
        self._level, self._why = 0, ""

    def turns_away(self, priority: Priority) -> Turned | None:
        """Why a ticket of this priority is not taken in now, and when to come back; None if it is."""
        if self._level and (turned := turned_by_processor(self._backlog, priority, self._level, self._why)):
            return turned
        return turned_by_wait(self._backlog, priority, self._longest_s.get(priority, 0.0))

    @property
    def per_s(self) -> float | None:
        """Tickets that leave their slots a second; None while that is not known."""
        return self._backlog.per_s

    def backfill_share(self) -> float:
        """How much of its window the backfill gets."""
        return 0.0 if self._level else backfill_share(self._backlog, self._longest_s)

    def turn(self) -> float:
        """Measures; the time until the next."""
        now_s = self._monotonic_s()
        share = self._share()
        level = self._busy.sample(share, now_s)
        if level and not self._level:
            self._why = f"the processor was {share:.0%} busy with other work for too long"
        self._level = level
        queued, ended = self._read()
        self._backlog = Backlog(queued=queued, per_s=self._rate.seen(ended, sum(queued.values()), now_s))
        opened = self._shown.by_hand()
        if opened is not None and opened != bool(self._level):
            self._busy.force(opened)
            self._level, self._why = self._busy.level, "somebody opened the door's breaker by hand"
        mode = Mode.CLOSED if not self._level else Mode.HALF_OPEN if self._busy.easing else Mode.OPEN
        self._shown.show(mode, self._why, self._utc_now())
        return EVERY_S
