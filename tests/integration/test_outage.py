"""An upstream that is dead for ten minutes of a sale: two drains, a real ledger, and a clock that the test turns."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from math import inf
from random import Random

import msgspec
import sqlalchemy as sa

from producer.adapters.outbox import SqlOutbox
from schemas.answer import Answer
from schemas.circuit_breaker import GpuBreakerSettings, UpstreamBreakerSettings
from schemas.envelope import Stub
from schemas.job import Job
from schemas.ledger import reading
from schemas.model import ModelSettings
from schemas.queues import PRIORITY_QUEUES
from schemas.retry_matrix import RETRY_MATRIX
from schemas.settings import BatchSettings
from schemas.tables import answers, tickets
from schemas.ticket import Priority
from tests.contract.tickets import NOON, put, states
from tests.ground.ledgers import TestLedger
from workers.adapters.ledger import SqlLedger, batch_id
from workers.drain import Drain
from workers.ending import Ending
from workers.engine.messages import asked
from workers.engine.noop import NoopEngine
from workers.parts import Parts
from workers.policy.reclaim import Limits
from workers.policy.retry import RetryBudget, Told
from workers.ports import Completed, Delivery, Failed, Orders, Settlement, Work
from workers.sizing import Sizing
from workers.taking import Taking
from workers.upstreams import Upstreams

DEAD_FROM_S, DEAD_UNTIL_S = 60, 660
TICKETS = 5000
FAR = ModelSettings(base_url="http://far", name="far")


class TurnedClock:
    """A clock that stands still until the test turns it."""

    def __init__(self) -> None:
        self.s = 0.0

    def utc_now(self) -> datetime:
        return NOON + timedelta(seconds=self.s)

    def monotonic_s(self) -> float:
        return self.s


Says = Callable[[float], Failed | None]
"""How an upstream refuses at a time; None: it answers."""


def dead_for_ten_minutes(at_s: float) -> Failed | None:
    return Failed(ticket_id="", error="503", why="HTTP 503") if DEAD_FROM_S <= at_s < DEAD_UNTIL_S else None


def limited_at_first(at_s: float) -> Failed | None:
    told = Told(retry_after_s=30.0)
    return Failed(ticket_id="", error="429", why="HTTP 429", told=told) if at_s < 10 else None


class Upstream(NoopEngine):
    """Answers or refuses; notes when it was asked."""

    def __init__(self, clock: TurnedClock, asked_at: list[float], says: Says) -> None:
        super().__init__()
        self._clock = clock
        self._asked_at = asked_at
        self._says = says

    def add(self, work: Work) -> None:
        super().add(work)
        self._asked_at.append(self._clock.s)

    def step(self) -> list[Completed | Failed]:
        ended = super().step()
        if refused := self._says(self._clock.s):
            return [msgspec.structs.replace(refused, ticket_id=each.ticket_id) for each in ended]
        return [Completed(ticket_id=each.ticket_id, answer=Answer(text="Soon.", model="far")) for each in ended]


class Shared:
    """Queues in memory that both drains take from, the most urgent first."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int, Stub]] = []
        self._number = itertools.count()

    def push(self, stubs: Sequence[Stub]) -> None:
        for stub in stubs:
            heapq.heappush(self.waiting, (stub.priority.rank, next(self._number), stub))

    def reserve(self, most: int, queue: str = "") -> list[Delivery]:
        taken: list[Delivery] = []
        while self.waiting and len(taken) < most:
            if queue and PRIORITY_QUEUES[self.waiting[0][2].priority] != queue:
                break
            _, number, stub = heapq.heappop(self.waiting)
            taken.append(Delivery(stub=stub, token=str(number), queue=PRIORITY_QUEUES[stub.priority]))
        return taken

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing is left to remove."""

    def release(self, deliveries: Sequence[Delivery]) -> None:
        self.push([each.stub for each in deliveries if each.stub])

    def move(self, _deliveries: Sequence[Delivery], _queue: str) -> None:
        raise AssertionError("every message is a ticket here")

    def renew(self, _deliveries: Sequence[Delivery]) -> list[Delivery]:
        return []

    def credit(self, most: int) -> None:
        """It pushes nothing."""

    def wait(self, ready: Callable[[], None]) -> None:
        """The test turns the drains itself."""

    def close(self) -> None:
        """Nothing to close."""


class Silent:
    """A monitor that nobody looks at."""

    def reserved(self, stubs: Sequence[Stub]) -> None: ...
    def entered(self, ticket_ids: Sequence[str]) -> None: ...
    def settled(self, settlements: Sequence[Settlement]) -> None: ...
    def cancelled(self, ticket_ids: Sequence[str]) -> None: ...
    def forgotten(self, ticket_ids: Sequence[str]) -> None: ...
    def flush(self) -> None: ...


def drain(
    name: str, ledger: TestLedger, clock: TurnedClock, asked_at: list[float], says: Says, slots: int = 8
) -> Drain:
    upstreams = Upstreams(frozenset({"far"}), UpstreamBreakerSettings(), share=0.2)
    orders = Orders(time_limit_s=inf)
    job = Job(system="Answer.", model="far")
    return Drain(
        Parts(
            ledger=SqlLedger(ledger.engine, breakers=True),
            open_engine=lambda _on_device: Upstream(clock, asked_at, says),
            results=None,
            monitor=Silent(),
            clock=clock,
            worker=name,
            job=lambda _name: job,
            most_starts=4,
            sizing=Sizing(BatchSettings(policy="fixed", start=slots), 0.0),
            new_batch=batch_id,
            ending=Ending(RETRY_MATRIX, {"far": FAR}, upstreams, asked, Random(name).random),
            upstreams=upstreams,
            taking=Taking(30.0, lambda: orders, clock),
            orders=lambda: orders,
            reclaim=Limits(),
            device="gpu:here",
            gpu=GpuBreakerSettings(),
            restart=lambda: None,
            revoked=lambda _id: False,
        )
    )


def settle(drains: Sequence[Drain], queues: Shared) -> None:
    """Has the drains do all that can be done without the clock going on."""
    quiet = 0
    while quiet < 3:
        before = [len(each.holds) for each in drains]
        for each in drains:
            each._waiting = False  # pyright: ignore[reportPrivateUsage]  # a doorbell that always rings
            each.turn()
        busy = any(len(each.holds) > len(each.holds.resting) for each in drains)
        if busy:
            drains[0].wait(0.002)
        quiet = 0 if busy or queues.waiting or before != [len(each.holds) for each in drains] else quiet + 1


def test_nothing_is_lost_nobody_hammers_and_live_tickets_come_first(sqlite_ledger: TestLedger) -> None:
    clock, queues, outbox = TurnedClock(), Shared(), SqlOutbox(sqlite_ledger.engine)
    asked_at: list[float] = []
    drains = [drain(f"drain-{n}", sqlite_ledger, clock, asked_at, dead_for_ten_minutes) for n in range(2)]
    for each in drains:
        each.start()
        while not each.slots.wait_loaded(0.1):
            pass
        each.attach(queues, lambda: None)
    sent = 0
    while clock.s < 1200 and states(sqlite_ledger.engine) != {"answered": TICKETS}:
        clock.s += 2
        due = min(TICKETS, int(TICKETS * clock.s / DEAD_UNTIL_S)) - sent
        for priority, share in ((Priority.NORMAL, due - due // 3), (Priority.BACKFILL, due // 3)):
            if share:
                queues.push(put(sqlite_ledger.engine, share, priority=priority, job="far", now=clock.utc_now()))
        sent += due
        for stubs in (outbox.wake(1000, clock.utc_now()), outbox.unpark(100, clock.utc_now())):
            queues.push(stubs)
        for each in drains:
            each.tick()
        settle(drains, queues)
    for each in drains:
        each.stop()
        each.close()
    assert states(sqlite_ledger.engine) == {"answered": TICKETS}
    while_dead = [at for at in asked_at if DEAD_FROM_S <= at < DEAD_UNTIL_S]
    opening, probes = 2 * 8 + 2 * UpstreamBreakerSettings().failures, 10
    retries = 0.2 * len([at for at in asked_at if at < DEAD_FROM_S + 10]) + 2 * RetryBudget.START
    assert len(while_dead) <= opening + retries + probes
    back = _answered_after(sqlite_ledger, NOON + timedelta(seconds=DEAD_UNTIL_S))
    live = [place for place, priority in enumerate(back) if priority == Priority.NORMAL.rank]
    backfill = [place for place, priority in enumerate(back) if priority == Priority.BACKFILL.rank]
    assert len(live) > 1000
    assert len(backfill) > 500
    assert live[len(live) * 99 // 100] < backfill[len(backfill) // 10]


def test_twenty_that_are_told_to_come_back_in_thirty_seconds_do_not_come_together(sqlite_ledger: TestLedger) -> None:
    clock, queues, outbox = TurnedClock(), Shared(), SqlOutbox(sqlite_ledger.engine)
    asked_at: list[float] = []
    drains = [drain("drain", sqlite_ledger, clock, asked_at, limited_at_first, slots=20)]
    drains[0].start()
    while not drains[0].slots.wait_loaded(0.1):
        pass
    queues.push(put(sqlite_ledger.engine, 20, job="far", now=clock.utc_now()))
    drains[0].attach(queues, lambda: None)
    while clock.s < 120 and states(sqlite_ledger.engine) != {"answered": 20}:
        for stubs in (outbox.wake(100, clock.utc_now()), outbox.unpark(100, clock.utc_now())):
            queues.push(stubs)
        drains[0].tick()
        settle(drains, queues)
        clock.s += 0.5
    drains[0].stop()
    drains[0].close()
    assert states(sqlite_ledger.engine) == {"answered": 20}
    assert asked_at[:20] == [0.0] * 20
    back = asked_at[20:]
    assert len(back) == 20
    assert min(back) >= 30
    assert max(back) - min(back) >= 8
    assert max(sum(at <= each < at + 1 for each in back) for at in back) <= 6


def _answered_after(ledger: TestLedger, at: datetime) -> list[int]:
    query = (
        sa.select(tickets.c.priority)
        .join(answers, answers.c.ticket_id == tickets.c.id)
        .where(answers.c.at > at)
        .order_by(answers.c.at, tickets.c.priority)
    )
    with reading(ledger.engine) as connection:
        return list(connection.scalars(query))
