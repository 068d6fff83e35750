"""The drain: reserve, start, let in, settle, acknowledge. One object on the consumer thread, which alone knows it all.

The engine's thread and the settler report into two queues; ``turn`` takes what they brought and decides what is next.
Everything a turn does is short: the thread also keeps leases, heartbeats and remote control alive.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from schemas.job import Late
from schemas.outcome import Again, Cancelled, Dead, Outcome, Returned
from schemas.queues import INLET
from workers.device import Device
from workers.holds import Hold, Holds
from workers.parts import Parts
from workers.policy.lost import together, worn_out
from workers.policy.order import ahead, enter_now
from workers.policy.seating import Seat
from workers.ports import Delivery, Failed, Settlement, Start, Transport, Work
from workers.settle import Settled, Settler
from workers.slots import Report, Slots

logger = logging.getLogger(__name__)

LAST_ROUND_S, LAST_STEP_S = 10.0, 5.0
"""How long ending threads are waited for."""


class Drain:
    """See the module. All methods belong to the consumer thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._monitor = parts.monitor
        self._sizing = parts.sizing
        self._settled: deque[Settled] = deque()
        self._reports: deque[Report] = deque()
        self._settler = Settler(parts.ledger, parts.results, parts.worker, parts.clock, self._on_settled)
        self.slots = Slots(parts.open_engine, self._on_report, parts.clock, parts.new_batch, parts.reclaim)
        self.holds = Holds()
        self._transport: Transport | None = None
        self._news = threading.Event()
        self._wake: Callable[[], object] = self._news.set
        self._waiting = False
        self._stopping = self._hurried = False
        self._allowed = 0
        self._apart = False
        self._fresh_left = 0
        self._ending = parts.ending
        self._upstreams = parts.upstreams
        self._device = Device(parts.device, parts.gpu, self.slots, parts.sizing, parts.upstreams.tell)
        self._later: Callable[[float], object] = lambda _: None
        self._next_s = inf
        self._taking = parts.taking

    def start(self) -> None:
        """Starts the threads; the engine loads."""
        self.slots.start()
        self._settler.start()

    def close(self) -> None:
        """Ends the threads, once what was decided is committed. A step whose tickets were given back is left behind."""
        self._settler.stop(LAST_ROUND_S)
        self.slots.stop(0 if self._hurried else LAST_STEP_S)

    def attach(
        self, transport: Transport, wake: Callable[[], object], later: Callable[[float], object] = lambda _: None
    ) -> None:
        """Works over this connection from now on.

        Args:
            wake: has ``turn`` called soon; from any thread.
            later: has it called in so many seconds.
        """
        self._transport = transport
        self._wake, self._later, self._next_s = wake, later, inf
        self._waiting = False
        self._taking.begin()
        self.holds.lost(transport.renew(self.holds.leased()))
        self.turn()

    def detach(self) -> None:
        """The connection is gone. What is in the slots goes on; its leases may outlive the connection or not."""
        self._transport = None
        self._wake = self._news.set

    @property
    def attached(self) -> bool:
        """There is a connection."""
        return self._transport is not None

    @property
    def busy(self) -> bool:
        """Something is held, or could still be acknowledged."""
        return bool(self.holds) or (self.attached and self.holds.messages_left)

    def turn(self) -> None:
        """Takes in what the threads report and does what follows from it.

        Raises:
            BrokerUnavailable: the connection is gone; nothing is lost by calling again on the next one.
        """
        while self._settled:
            self._take_settled(self._settled.popleft())
        while self._reports:
            self._take_report(self._reports.popleft())
        if self._transport is not None:
            if self.holds.done:
                self._transport.ack(self.holds.done)
                self.holds.done = []
            self._apart = self._apart and not self.holds.idle
            if not self._stopping and not self._apart:
                self._reserve(self._transport)
                self._begin_suspects()
        if not self._stopping:
            self._rouse()
            self._let_in()
        self._monitor.flush()

    def wait(self, wait_s: float) -> None:
        """Where no loop runs: waits so long, or until a thread has reported."""
        self._news.wait(wait_s)
        self._news.clear()

    def tick(self) -> None:
        """Once a second or so: renews leases, restores those of the dead, and offers again what was set aside."""
        if self._transport is not None:
            self.holds.lost(self._transport.renew(self.holds.leased()))
            self._release_aside(self._transport)
        self._end_overdue()
        self.turn()

    def withdraw(self, ticket_id: str) -> None:
        """Takes a ticket out of its slot, or its rest, for good. One that has not begun yet is cancelled as it does."""
        inside = [*self.holds.all_in_slots(), *self.holds.resting]
        for hold in (each for each in inside if each.stub.id == ticket_id):
            self.slots.drop([ticket_id])
            self._end(hold, Cancelled("revoked by remote control while it ran"))

    def beat(self) -> None:
        """A few times a lease: tells the ledger that we live."""
        self._settler.beat(self._sizing.size, self.slots.model)

    def stop(self) -> None:
        """Takes nothing more and gives back what waits; ``busy`` ends once what runs is settled."""
        self._stopping = True
        for suspect in list(self.holds.suspects):
            self.holds.let_go(suspect.stub.id, keep_message=True)
        waiting = [*self.holds.next_ready(self.holds.coming), *self.holds.resting]
        self._give_back(waiting, "its worker was told to stop")
        if self._transport is not None:
            self._release_aside(self._transport)

    def hurry(self) -> None:
        """Gives back what runs, too."""
        self._hurried = True
        self.stop()
        inside = self.holds.all_in_slots()
        self.slots.drop([hold.stub.id for hold in inside])
        self._give_back(inside, "its worker was told to stop at once")

    def info(self) -> dict[str, int]:
        """Counts for ``celery inspect stats``."""
        holds = self.holds
        return {"slots": self._sizing.size, "inside": holds.inside, "coming": holds.coming, "held": len(holds)}

    def _on_settled(self, settled: Settled) -> None:
        self._settled.append(settled)
        self._wake()

    def _on_report(self, report: Report) -> None:
        self._reports.append(report)
        self._wake()

    def _reserve(self, transport: Transport) -> None:
        size = self._sizing.size
        most = ahead(size, self._sizing.slot_s, self._sizing.start_s)
        # What runs, what is ready, what is being settled, and as many again to take from.
        self._taking.allow(transport, size + 3 * most + 1)
        want = size - self.holds.inside + most - self.holds.coming
        if self.holds.suspects:
            want = min(want, self._fresh_left)
        want = self._taking.allowed(want)
        if want <= 0 or self._waiting:
            return
        deliveries = self._taking.take(transport, want)
        now_s = self._clock.monotonic_s()
        fresh: list[Hold] = []
        for delivery in deliveries:
            if delivery.stub is None:
                self._strange(transport, delivery)
            elif hold := self.holds.take(delivery.stub, delivery, now_s):
                fresh.append(hold)
        if fresh:
            self._settler.begin([self._start(hold) for hold in fresh])
            self._monitor.reserved([hold.stub for hold in fresh])
        self._fresh_left -= len(deliveries)
        if len(deliveries) < want:
            self._waiting = True
            transport.wait(self._rung)

    def _start(self, hold: Hold) -> Start:
        job = self._parts.job(hold.stub.job)
        revoked = self._parts.revoked(hold.stub.id)
        return Start(delivery=hold.deliveries[0], revoked=revoked, late=job.late if job else Late.DEAD)

    def _begin_suspects(self) -> None:
        """Tickets that were lost with a worker run apart from all others, and one batch of others between them."""
        if not self.holds.suspects or not self.holds.idle:
            return
        lost = [hold.lost for hold in self.holds.suspects]
        group = self.holds.begin(together(lost, self._parts.most_starts, self._sizing.size))
        self._settler.begin([Start(delivery=hold.deliveries[0], lost=hold.lost) for hold in group])
        self._apart = True
        self._fresh_left = self._sizing.size

    def _rung(self) -> None:
        self._waiting = False
        self.turn()

    def _strange(self, transport: Transport, delivery: Delivery) -> None:
        if delivery.raw:
            transport.move([delivery], INLET)
        elif delivery.newer:
            self.holds.aside.append(delivery)
        else:
            self.holds.stray(delivery)
            self._settler.stray([delivery])

    def _release_aside(self, transport: Transport) -> None:
        if self.holds.aside:
            transport.release(self.holds.aside)
            self.holds.aside = []

    def _rouse(self) -> None:
        """Those that failed a moment ago and are due again may enter, and we look again when the next one is."""
        now_s = self._clock.monotonic_s()
        roused = self.holds.rested(now_s)
        if roused:
            self._monitor.reserved([hold.stub for hold in roused])
        next_s = self.holds.next_due_s()
        if next_s < self._next_s or self._next_s <= now_s < next_s < inf:
            self._later(max(0.0, next_s - now_s))
        self._next_s = next_s

    def _let_in(self) -> None:
        free = self._sizing.size - self.holds.inside
        ready = self.holds.ready_ranks()
        if free <= 0 or not ready:
            return
        entering = self.holds.next_ready(enter_now(free, ready, self.holds.starting_ranks()))
        seats = [seat for hold in entering if (seat := self._seat(hold))]
        self.slots.enter(seats)
        self._monitor.entered([seat.work.ticket.id for seat in seats])

    def _seat(self, hold: Hold) -> Seat[Work] | None:
        """Its way into a slot; None for a ticket that must not enter, whose end is settled."""
        assert hold.started is not None
        ticket = hold.started.ticket
        hopeless = worn_out(hold.started.lost, self._parts.most_starts)
        if hopeless is not None:
            self._end(hold, hopeless)
            return None
        job = self._parts.job(ticket.job)
        if job is None:
            self._end(hold, Dead(f"there is no job {ticket.job!r} here; add it under jobs and queue the ticket again"))
            return None
        attempt = hold.attempt(job)
        if (outcome := self._ending.before(attempt, self._clock.utc_now())) is not None:
            if isinstance(outcome, Again):
                self.holds.rest(hold, self._due_s(outcome))
            else:
                self._end(hold, outcome)
            return None
        hold.job = job
        self.holds.enter(hold, self._clock.monotonic_s())
        return Seat(work=Work(ticket=ticket, job=attempt.job), rank=hold.rank)

    def _take_settled(self, settled: Settled) -> None:
        self.holds.strayed(settled.strayed)
        committed, now_s = settled.committed, self._clock.monotonic_s()
        self._upstreams.learn(committed.breakers)
        self._device.learn(committed.breakers)
        forgotten: list[str] = []
        cancelled: list[str] = []
        for ticket_id in (each.delivery.stub.id for each in settled.starts if each.delivery.stub):
            started = committed.started.get(ticket_id)
            if started is not None:
                self._sizing.started(now_s - self.holds.start(ticket_id, started).reserved_s)
            elif ticket_id in committed.lost:
                self.holds.suspect(ticket_id, committed.lost[ticket_id])
            elif ticket_id in committed.cancelled:
                cancelled.append(ticket_id)
                self.holds.let_go(ticket_id)
            else:  # stale, or a copy of one that was settled before
                forgotten.append(ticket_id)
                self.holds.let_go(ticket_id, keep_message=settled.refused)
        counted: list[Settlement] = []
        for settlement in settled.settlements:
            again = settlement.outcome
            if isinstance(again, Again) and settlement.ticket_id in committed.settled:
                self.holds.failed(settlement.ticket_id, again, self._due_s(again))
                counted.append(settlement)
                continue
            self.holds.let_go(settlement.ticket_id, keep_message=settled.refused)
            if settlement.ticket_id in committed.settled:
                counted.append(settlement)
            else:
                forgotten.append(settlement.ticket_id)
                logger.warning("ticket %s: its lease was lost, and its outcome did not count", settlement.ticket_id)
        self._monitor.settled(counted)
        self._monitor.cancelled(cancelled)
        self._monitor.forgotten(forgotten)
        if self._stopping:
            self.stop()

    def _take_report(self, report: Report) -> None:
        settlements: list[Settlement] = []
        for ended in report.ended:
            hold = self.holds.in_slot(ended.result.ticket_id)
            if hold is not None and hold.job is not None:  # otherwise given back before it ended
                outcome = self._ending.of(ended, hold.attempt(hold.job))
                stay = ended.started_at, ended.ended_at
                settlements.append(hold.settlement(outcome, *stay, ended.batch, ended.batch_size))
                self.holds.leave(hold)
        spent_s = [(each.ended_at - each.started_at).total_seconds() for each in report.ended]
        now_s = self._clock.monotonic_s()
        if report.lost:
            self._on_lost(report.lost)
        if report.too_many:
            self._sizing.too_many(report.used, now_s)
        self._sizing.stepped(report.step_s, report.used, spent_s, report.load, now_s)
        if report.load is not None:
            self._device.loaded(report.load, report.used, now_s, self._clock.utc_now())
        news = self._upstreams.news()
        if settlements or news:
            self._settler.settle(settlements, news)
        if self._sizing.size != self._allowed:
            self._allowed = self._sizing.size
            self.slots.allow(self._allowed)

    def _on_lost(self, why: str) -> None:
        """Everyone goes back untouched, and this process makes way for a new one."""
        self._hurried = self._stopping = True
        self._give_back(self.holds.all_in_slots(), f"its worker lost the device: {why}")
        self._parts.restart()

    def _end_overdue(self) -> None:
        """Takes tickets out of their slots, at the engine's next token boundary, that were there for too long."""
        limit_s, now_s = self._parts.orders().time_limit_s, self._clock.monotonic_s()
        overdue = [hold for hold in self.holds.all_in_slots() if now_s - hold.entered_s > hold.limit_s(limit_s)]
        self.slots.drop([hold.stub.id for hold in overdue], overdue=True)
        for hold in overdue:
            assert hold.job is not None
            name = "worker.time_limit" if hold.limit_s(limit_s) == limit_s else "its own time_limit"
            why = f"was in its slot for more than {hold.limit_s(limit_s):g} s ({name})"
            failed = Failed(ticket_id=hold.stub.id, error="time_limit", why=why)
            self._end(hold, self._ending.failed(failed, hold.attempt(hold.job), self._clock.utc_now()))

    def _due_s(self, again: Again) -> float:
        return self._clock.monotonic_s() + (again.due_at - self._clock.utc_now()).total_seconds()

    def _give_back(self, holds: Sequence[Hold], reason: str) -> None:
        for hold in holds:
            self._end(hold, Returned(reason))

    def _end(self, hold: Hold, outcome: Outcome) -> None:
        """Settles a ticket that has no result of the engine."""
        now = self._clock.utc_now()
        self.holds.leave(hold)
        self._settler.settle([hold.settlement(outcome, now, now)], self._upstreams.news())
