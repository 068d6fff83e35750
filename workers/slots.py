"""The engine's thread: takes tickets into slots, steps, and reports what ended.

A batch that fails as a whole is split here, at once and under the same leases, until the poison stands alone: its
neighbours never learn of it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from schemas.errors import TicketmillError
from workers.policy.expected import ExpectedTokens
from workers.policy.reclaim import Ladder, Limits, Reclaim, Signs, trouble
from workers.policy.seating import Seat, Seating
from workers.ports import Clock, Completed, DeviceLost, Engine, Failed, Load, StepFailed, Work

logger = logging.getLogger(__name__)

KV_FILLED = 0.9
"""The share of the KV cache that expected lengths may fill: a row's last block is seldom full."""

LOAD_EVERY_S = 1.0
"""Measuring the device costs about as much as a step of a small model."""

LATEST = 200
"""Requests of which the share that ran out of time is taken."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket that left its slot. ``batch_size`` is the number of slots that were in use when it did."""

    result: Completed | Failed
    batch: str
    batch_size: int
    started_at: datetime
    ended_at: datetime


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the engine, in seconds. ``load`` is there about once a second.

    Attributes:
        used: slots in use during the step.
        too_many: fewer slots should be used: the device had too little memory for it, or memory is being reclaimed.
        lost: why the device is of no use to this process any more; empty while it is.
    """

    ended: list[Ended]
    step_s: float
    load: Load | None
    used: int
    too_many: bool = False
    lost: str = ""


class Slots(threading.Thread):
    """Runs an engine. It is loaded, used and closed on this thread: some devices care which one that is.

    Args:
        open_engine: loads the engine, on its device or (given False) on the processor; what it raises at first,
            ``wait_loaded`` raises.
        report: called on this thread after each step in which a ticket ended or the load was measured.
        new_batch: makes the id of a batch: the tickets that entered at one boundary.
        limits: when memory is reclaimed.
    """

    def __init__(
        self,
        open_engine: Callable[[bool], Engine],
        report: Callable[[Report], None],
        clock: Clock,
        new_batch: Callable[[datetime], str],
        limits: Limits,
    ) -> None:
        super().__init__(name="engine", daemon=True)
        self.model = ""
        self._open_engine = open_engine
        self._report = report
        self._clock = clock
        self._new_batch = new_batch
        self._loaded = threading.Event()
        self._refusal: Exception | None = None
        self._changed = threading.Condition()
        self._arrived: list[Seat[Work]] = []
        self._dropped: set[str] = set()
        self._stopping = False
        self._seating: Seating[Work] = Seating()
        self._expected = ExpectedTokens()
        self._kv_tokens = 0
        self._fragmentation = 0.0
        self._inside: dict[str, _Sitting] = {}
        self._measured_s = float("-inf")
        self._limits = limits
        self._ladder = Ladder()
        self._failed_batches = 0
        self._in_time: deque[bool] = deque(maxlen=LATEST)
        self._most = 1_000_000
        self._on_device = self._wants_device = True
        self._asked_to_reclaim = False

    def wait_loaded(self, wait_s: float) -> bool:
        """Whether the engine can serve by then; raises what it raised if it never can."""
        loaded = self._loaded.wait(wait_s)
        if self._refusal is not None:
            raise self._refusal
        return loaded

    def enter(self, seats: Sequence[Seat[Work]]) -> None:
        """Lets tickets in at the next boundary. From any thread."""
        with self._changed:
            self._arrived.extend(seats)
            self._changed.notify()

    def use_device(self, wanted: bool) -> None:
        """Computes on the device, or on the processor instead, from the next boundary on. From any thread."""
        with self._changed:
            self._wants_device = wanted
            self._changed.notify()

    def reclaim(self) -> None:
        """Takes the next step of the ladder at the next boundary. From any thread."""
        self._asked_to_reclaim = True

    def allow(self, most: int) -> None:
        """So many slots may be in use from now on. From any thread."""
        self._most = most

    def drop(self, ticket_ids: Sequence[str], *, overdue: bool = False) -> None:
        """Forgets tickets at the next boundary; nothing is reported of them. From any thread.

        Args:
            overdue: they ran out of time.
        """
        with self._changed:
            self._dropped.update(ticket_ids)
            if overdue:
                self._in_time.extend([False] * len(ticket_ids))
            self._changed.notify()

    def stop(self, wait_s: float) -> None:
        """Closes the engine at the next boundary, and waits so long for that."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self.join(wait_s)

    def run(self) -> None:
        """The thread's work."""
        try:
            engine = self._open_engine(True)
        except Exception as refusal:  # noqa: BLE001 - raised again where somebody waits for the engine
            self._refusal = refusal
            self._loaded.set()
            return
        self.model = engine.model
        self._kv_tokens = engine.load().kv_tokens
        self._loaded.set()
        try:
            while self._boundary(engine):
                if engine.running:
                    self._step(engine)
                if self._reclaim(engine) is Reclaim.RELOAD or self._on_device != self._wants_device:
                    engine = self._reloaded(engine)
        except DeviceLost as lost:
            logger.critical("the device is lost to this process: %s", lost)
            self._report(Report(ended=[], step_s=0.0, load=None, used=0, lost=str(lost)))
            return
        engine.close()

    def _boundary(self, engine: Engine) -> bool:
        """Forgets, lets in, and waits while there is nothing to do. False once it is time to stop."""
        with self._changed:
            while not (
                self._arrived
                or self._dropped
                or self._stopping
                or engine.running
                or self._seating.waiting
                or self._on_device != self._wants_device
            ):
                self._changed.wait()
            arrived, self._arrived = self._arrived, []
            dropped, self._dropped = self._dropped, set()
            if self._stopping:
                return False
        self._seating.arrive([self._measured(seat) for seat in arrived])
        if dropped:
            self._forget(engine, dropped)
        entering = self._seating.enter(engine.running, *self._room(), self._most)
        if entering:
            now = self._clock.utc_now()
            batch = self._new_batch(now)
            for seat in entering:
                self._inside[seat.work.ticket.id] = _Sitting(seat, batch, now)
                engine.add(seat.work)
        return True

    def _measured(self, seat: Seat[Work]) -> Seat[Work]:
        work = seat.work
        expected = self._expected.of(work.ticket.job, _text_bytes(work), work.job.max_new_tokens)
        return msgspec.structs.replace(seat, tokens=expected.mean, spread=expected.spread)

    def _room(self) -> tuple[list[Seat[Work]], int | None]:
        seated = [sitting.seat for sitting in self._inside.values()]
        return seated, int(KV_FILLED * self._kv_tokens) if self._kv_tokens else None

    def _step(self, engine: Engine) -> None:
        size = engine.running
        began_s = self._clock.monotonic_s()
        failure: StepFailed | None = None
        results: list[Completed | Failed] = []
        try:
            results = engine.step()
        except DeviceLost:
            raise
        except StepFailed as error:
            failure = error
        except Exception as error:
            # Handled below, once the traceback no longer holds on to the device's memory.
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
            failure = StepFailed(frozenset(self._inside), isinstance(error, MemoryError), why)
            logger.exception("a batch of %d failed as a whole", size)
        ended_s = self._clock.monotonic_s()
        too_many = failure is not None and failure.out_of_memory
        if too_many:
            self._most = max(1, min(self._most, size) // 2)  # at once; how many it is to be is decided elsewhere
        self._failed_batches = 0 if failure is None else self._failed_batches + 1
        if failure is not None:
            results = self._failed(engine, failure)
        load = None
        if ended_s - self._measured_s >= LOAD_EVERY_S:
            self._measured_s = ended_s
            load = engine.load()
            self._kv_tokens, self._fragmentation = load.kv_tokens, load.fragmentation
        ended = self._leave(results, size)
        if ended and logger.isEnabledFor(logging.INFO):
            _log(ended, size, ended_s - began_s)
        if ended or load or too_many:
            step_s = ended_s - began_s
            self._report(Report(ended=ended, step_s=step_s, load=load, used=size, too_many=too_many))

    def _reclaim(self, engine: Engine) -> Reclaim | None:
        """Takes the next step of the ladder, if something is wrong and it is time for it."""
        signs = Signs(
            failed_batches=self._failed_batches,
            fragmentation=self._fragmentation,
            timeouts=self._in_time.count(False) / max(1, len(self._in_time)),
            requests=len(self._in_time),
        )
        why = "the device's memory is nearly full" if self._asked_to_reclaim else trouble(signs, self._limits)
        step = self._ladder.next(why, self._clock.monotonic_s()) if why else None
        if step is None:
            return None
        freed = engine.reclaim(step)
        self._failed_batches, self._asked_to_reclaim = 0, False
        self._in_time.clear()
        self._fragmentation = engine.load().fragmentation
        if step is Reclaim.HALVE:
            self._report(Report(ended=[], step_s=0.0, load=None, used=engine.running, too_many=True))
        logger.warning("memory reclaimed, since %s: %s, %.1f MB freed", why, step, freed / 1e6)
        return step

    def _reloaded(self, engine: Engine) -> Engine:
        """The engine made anew, where it is wanted; whoever was inside begins again, and it costs no attempt."""
        engine.drop(list(self._inside))
        self._seating.arrive([sitting.seat for sitting in self._inside.values()])
        self._inside.clear()
        engine.close()
        self._on_device = self._wants_device
        try:
            return self._open_engine(self._on_device)
        except TicketmillError as refused:
            raise DeviceLost(f"the model could not be loaded anew: {refused}") from None

    def _leave(self, results: Sequence[Completed | Failed], size: int) -> list[Ended]:
        now = self._clock.utc_now()
        ended: list[Ended] = []
        for result in results:
            sitting = self._inside.pop(result.ticket_id)
            self._in_time.append(True)
            if isinstance(result, Completed):
                work, usage = sitting.seat.work, result.answer.usage
                prompt = usage.prompt_tokens - usage.reused_tokens
                self._expected.learn(work.ticket.job, _text_bytes(work), prompt, usage.completion_tokens)
            ended.append(
                Ended(
                    result=result,
                    batch=sitting.batch,
                    batch_size=size,
                    started_at=sitting.started_at,
                    ended_at=now,
                )
            )
        return ended

    def _failed(self, engine: Engine, failure: StepFailed) -> list[Completed | Failed]:
        engine.drop(list(failure.lost))
        group = [sitting.seat for ticket_id, sitting in self._inside.items() if ticket_id in failure.lost]
        if len(group) == 1:
            error = "out_of_memory" if failure.out_of_memory else "engine"
            return [Failed(ticket_id=group[0].work.ticket.id, error=error, why=str(failure))]
        for seat in group:
            del self._inside[seat.work.ticket.id]
        if group:
            self._seating.split(group)
        return []

    def _forget(self, engine: Engine, ticket_ids: set[str]) -> None:
        engine.drop([ticket_id for ticket_id in self._inside if ticket_id in ticket_ids])
        self._inside = {key: sitting for key, sitting in self._inside.items() if key not in ticket_ids}
        self._seating.forget([seat for seat in self._seating.seats() if seat.work.ticket.id in ticket_ids])


def _text_bytes(work: Work) -> int:
    ticket = work.ticket
    return len(ticket.subject.encode()) + len(ticket.body.encode())


def _log(ended: Sequence[Ended], size: int, step_s: float) -> None:
    answered = sum(isinstance(each.result, Completed) for each in ended)
    failed = len(ended) - answered
    logger.info(
        "batch %s: %d answered, %d failed, %d slots, %.0f ms", ended[-1].batch, answered, failed, size, 1000 * step_s
    )


class _Sitting(msgspec.Struct):
    seat: Seat[Work]
    batch: str
    started_at: datetime
