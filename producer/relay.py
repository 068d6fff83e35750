"""From the outbox to the broker, and back again for what the broker lost or a silent worker left behind.

Whatever happens between the two, the ledger knows: a message that is sent twice is harmless, and one that is not
noted as published is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from threading import Condition

from producer.policy.running import RunningLimits
from producer.policy.shares import Shares
from producer.ports import Books, Broker, Judge, Outbox
from schemas.envelope import Stub
from schemas.ticket import Priority

GRACE = timedelta(milliseconds=250)
"""How long the outbox leaves a due ticket alone: the door that took it in is publishing it in this very moment."""

COUNTED_ANEW = timedelta(seconds=60)
"""Between two looks at all that is under way of what is limited."""

PAGE = 50_000
"""Suspects compared with the broker at once, which may look through all it has for each page."""


class Relay:
    """Publishes what is due. Every method raises BrokerUnavailable or LedgerUnavailable; then it is tried again.

    Args:
        chunk: messages in one call to the broker, and tickets in one transaction.
        window: backfill tickets that may be queued at once, asked each time.
        judge: the gate, which backfill tickets meet when they are released.
        limits: how many of a tenant or a job may run at once. Only the sweep publishes what they limit: it is one for
            the whole fleet.
        shares: who may publish how much; None: everyone all.
        share: tickets in a tenant's window on each queue, asked each time.
    """

    def __init__(
        self,
        outbox: Outbox,
        broker: Broker,
        *,
        chunk: int,
        window: Callable[[], int],
        judge: Judge,
        limits: RunningLimits | None = None,
        shares: Shares | None = None,
        share: Callable[[], int] = lambda: 0,
    ) -> None:
        self._outbox = outbox
        self._judge = judge
        self._broker = broker
        self._chunk = chunk
        self._window = window
        self._limits = limits or RunningLimits({}, {})
        self._counted_at: datetime | None = None
        self._shares = shares
        self._share = share

    def hand_over(self, stubs: Sequence[Stub], now: datetime) -> int:
        """Publishes these, the most urgent first, and notes it; returns how many. What its tenant has no room for stays
        in the outbox, and so does what may not run with all the others."""
        return self._publish([stub for stub in stubs if not self._limits.limits(stub)] if self._limits else stubs, now)

    def _publish(self, stubs: Sequence[Stub], now: datetime) -> int:
        ordered = sorted(stubs, key=lambda stub: stub.priority.rank)
        if self._shares is not None and ordered:
            self._shares.drained(self._broker.lengths())
            ordered = self._shares.allowed(ordered, self._share())
        for start in range(0, len(ordered), self._chunk):
            chunk = ordered[start : start + self._chunk]
            self._broker.publish(chunk)
            self._outbox.published(chunk, now)
            if self._shares is not None:
                self._shares.published(chunk)
        return len(ordered)

    def sweep(self, now: datetime, taken_since: datetime | None = None) -> int:
        """One chunk of everything that is due: left over, done waiting or parked, or next of the backfill; how many.

        Args:
            taken_since: what was taken in since then is about to be handed over, and left alone here.
        """
        due_before = min(now - GRACE, (taken_since or now) - timedelta(microseconds=1))
        if self._limits:
            self._count(now)
        count = self._publish(self._left_over(due_before), now)
        count += self.hand_over(self._outbox.wake(self._chunk, now), now)
        count += self.hand_over(self._outbox.unpark(self._chunk, now), now)
        return count + self.hand_over(self._released(now), now)

    def _count(self, now: datetime) -> None:
        """Learns what is under way of what is limited: now and then of all, else of what was a moment ago."""
        limits = self._limits
        if self._counted_at is None or not self._counted_at <= now < self._counted_at + COUNTED_ANEW:
            limits.know(self._outbox.under_way(limits.tenants, limits.jobs))
            self._counted_at = now
        else:
            limits.keep(self._outbox.still_under_way(limits.under_way))

    def _left_over(self, due_before: datetime) -> list[Stub]:
        """A chunk of what is due and not published, everyone in turn."""
        shares, limits = self._shares, self._limits
        if shares is None:
            return limits.allowed(self._outbox.unpublished(self._chunk, due_before, None, limits.full_jobs))
        shares.drained(self._broker.lengths())
        window = self._share()

        def room(priority: Priority, tenant: str) -> int:
            most = limits.room(tenant)
            fair = shares.room(priority, tenant, window)
            return fair if most is None else min(fair, most)

        stubs = self._outbox.unpublished(self._chunk, due_before, room, limits.full_jobs)
        line: list[Stub] = []
        for _, of_priority in groupby(stubs, key=lambda stub: stub.priority):
            waiting: dict[str, list[Stub]] = {}
            for stub in of_priority:
                waiting.setdefault(stub.tenant, []).append(stub)
            line += shares.turn(waiting)
        return limits.allowed(line[: self._chunk])

    def _released(self, now: datetime) -> list[Stub]:
        return self._outbox.release_backfill(self._window(), self._chunk, self._judge, now)

    def close(self) -> None:
        """Lets go of the broker."""
        self._broker.close()


class Reconciler:
    """Compares what the ledger believes with what is. What it finds goes back into the outbox, for the relay.

    Args:
        silent_after: a worker that has not been seen for so long is gone.
        lost_after: a message that was published so long ago should be on the broker, or its ticket not queued.
        hold: how long a ticket that is in review or parked holds the later ones of its conversation.
    """

    def __init__(
        self,
        books: Books,
        broker: Broker,
        *,
        chunk: int,
        silent_after: timedelta,
        lost_after: timedelta,
        hold: timedelta,
    ) -> None:
        self._books = books
        self._broker = broker
        self._chunk = chunk
        self._silent_after = silent_after
        self._lost_after = lost_after
        self._hold = hold

    def recall(self, now: datetime) -> int:
        """Queues again what silent workers were running; returns how many, at most a chunk."""
        return len(self._books.recall(now - self._silent_after, self._chunk, now))

    def let_pass(self, now: datetime) -> int:
        """Lets go on what a ticket in review or parked has held long enough; returns how many, at most a chunk."""
        return self._books.let_pass(now - self._hold, self._chunk, now)

    def refill(self, now: datetime) -> int:
        """Puts what the broker has lost back into the outbox; returns how many."""
        before = now - self._lost_after
        # The broker first: what is started meanwhile is then missing from the ledger's count, never from the broker's.
        held = self._broker.held()
        if not _short(held, self._books.queued()):
            return 0
        short = _short(held, self._books.queued(before))
        return sum(self._look_through(priority, before) for priority in short)

    def _look_through(self, priority: Priority, before: datetime) -> int:
        count = 0
        after_id = ""
        while page := self._books.suspects(priority, before, after_id, PAGE):
            lost = self._broker.lost(page)
            for start in range(0, len(lost), self._chunk):
                count += self._books.forget(lost[start : start + self._chunk])
            after_id = page[-1].id
        return count

    def close(self) -> None:
        """Lets go of the broker."""
        self._broker.close()


def _short(held: Mapping[Priority, int], queued: Mapping[Priority, int]) -> list[Priority]:
    return [priority for priority in held if held[priority] < queued.get(priority, 0)]


class Tray:
    """Where the doors lay what they took in, for the relay's thread to publish without asking the ledger.

    Args:
        most: stubs it holds. What does not fit is left to the outbox, which has it anyway.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._stubs: list[Stub] = []
        self._oldest: datetime | None = None
        self._changed = Condition()
        self._closed = False

    @property
    def oldest(self) -> datetime | None:
        """When the first of those that lie there was taken in."""
        with self._changed:
            return self._oldest

    def put(self, stubs: Sequence[Stub], taken_at: datetime) -> None:
        """Lays them down and wakes whoever waits."""
        if not stubs:
            return
        with self._changed:
            self._stubs += stubs[: max(0, self._most - len(self._stubs))]
            self._oldest = self._oldest or taken_at
            self._changed.notify_all()

    def take(self, wait_s: float) -> list[Stub]:
        """All that lies there; waits for something for so long, less if the tray is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._stubs or self._closed, wait_s)
            taken, self._stubs, self._oldest = self._stubs, [], None
        return taken

    def close(self) -> None:
        """Nobody waits here any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
