"""What the serving process does besides answering requests, one turn at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from producer.ports import Books
from producer.relay import Reconciler, Relay, Tray

log = logging.getLogger("ticketmill")

Clock = Callable[[], datetime]


class Duty:
    """Work that one process at a time should do. Two at once would do no harm, only the same twice.

    Args:
        holder: this process's own name.
        lasts: how long the duty stays with a process that died.
    """

    def __init__(self, books: Books, name: str, holder: str, lasts: timedelta) -> None:
        self._books = books
        self._name = name
        self._holder = holder
        self._lasts = lasts
        self._ask_at: datetime | None = None
        self._mine = False

    def mine(self, now: datetime) -> bool:
        """Whether it is ours now. Asks the ledger a few times in the duty's length, and at once after a fault."""
        if self._ask_at is None or now >= self._ask_at or now < self._ask_at - self._lasts:
            self._ask_at = None
            self._mine = self._books.take_duty(self._name, self._holder, now + self._lasts, now)
            self._ask_at = now + self._lasts / 3
        return self._mine

    def drop(self) -> None:
        """Leaves it to others at once."""
        if self._mine:
            self._mine = False
            self._books.drop_duty(self._name, self._holder)


class RelayTurns:
    """Publishes what the doors lay down as soon as they do, and sweeps the outbox now and then while on duty.

    Args:
        chunk: how much one sweep does; a full one is followed by another at once.
    """

    def __init__(self, tray: Tray, relay: Relay, duty: Duty, clock: Clock, interval: timedelta, chunk: int) -> None:
        self._tray = tray
        self._relay = relay
        self._duty = duty
        self._clock = clock
        self._interval = interval
        self._chunk = chunk
        self._sweep_at: datetime | None = None

    def turn(self) -> float:
        """One turn; waits for work itself."""
        now = self._clock()
        wait = self._interval if self._sweep_at is None else self._sweep_at - now
        stubs = self._tray.take(min(max(wait, timedelta()), self._interval).total_seconds())
        now = self._clock()
        self._relay.hand_over(stubs, now)
        if self._sweep_at is None or not now < self._sweep_at <= now + self._interval:
            full = self._duty.mine(now) and self._relay.sweep(now, self._tray.oldest) >= self._chunk
            self._sweep_at = now if full else now + self._interval
        return 0.0

    def last(self) -> None:
        """Publishes what still lies on the tray, and leaves the duty to others."""
        try:
            self._relay.hand_over(self._tray.take(0), self._clock())
        finally:
            self._relay.close()
            self._duty.drop()


class ReconcilerTurns:
    """Calls back what silent workers hold, and what the broker has lost, while on duty."""

    def __init__(self, reconciler: Reconciler, duty: Duty, clock: Clock, interval: timedelta) -> None:
        self._reconciler = reconciler
        self._duty = duty
        self._clock = clock
        self._interval = interval

    def turn(self) -> float:
        """One turn; the time until the next."""
        now = self._clock()
        if self._duty.mine(now):
            if recalled := self._reconciler.recall(now):
                log.warning("queued %d tickets again whose worker has gone silent", recalled)
            if passed := self._reconciler.let_pass(now):
                log.info("%d tickets no longer wait for an earlier one that is in review or parked", passed)
            if lost := self._reconciler.refill(now):
                log.warning("queued %d tickets again whose message the broker has lost", lost)
        return self._interval.total_seconds()

    def last(self) -> None:
        """Leaves the duty to others."""
        self._reconciler.close()
        self._duty.drop()
