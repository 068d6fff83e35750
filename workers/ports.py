"""What the drain needs of the world, in our own words. Each port has one contract suite, run on every adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Protocol

import msgspec

from schemas.answer import Answer
from schemas.breaker import Breaker
from schemas.envelope import Stub
from schemas.job import Job
from schemas.outcome import Answered, Dead, Outcome
from schemas.ticket import Ticket
from workers.policy.reclaim import Reclaim
from workers.policy.retry import Told
from workers.upstreams import News


class Delivery(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A message that this worker holds under a lease.

    Attributes:
        stub: what the message says of its ticket; None if it is no admitted ticket at all.
        token: the transport's own handle: what ack, release and renew name it by.
        redelivered: somebody had it before and did not acknowledge it.
        raw: no admitted ticket, but one that the inlet may admit.
        newer: written by a later version of Ticketmill, for a newer worker.
        headers, body: as they came; only where there is no stub.
    """

    stub: Stub | None
    token: str
    queue: str
    redelivered: bool = False
    raw: bool = False
    newer: bool = False
    headers: bytes = b""
    body: bytes = b""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator has set, by settings or by remote control.

    Attributes:
        time_limit_s: how long a ticket may stay in a slot.
        per_s: tickets that this worker takes a second at most; 0: as many as it can.
    """

    time_limit_s: float = inf
    per_s: float = 0.0


class Clock(Protocol):
    """Reads clocks, so that nothing else has to."""

    def utc_now(self) -> datetime:
        """The time as it is stored: aware, UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that only grow, for how long things took."""
        ...


class Loop(Protocol):
    """The part of the consumer thread's event loop that a transport needs."""

    def add_reader(self, fds: int, callback: Callable[..., object], *args: object) -> None:
        """Has ``callback`` called whenever there is something to read."""
        ...

    def remove_reader(self, fd: int) -> None:
        """No longer."""
        ...

    def call_soon(self, callback: Callable[..., object], *args: object) -> object:
        """Has ``callback`` called on the consumer thread; may be called from any thread."""
        ...


class Transport(Protocol):
    """Takes messages off the priority queues. Called by the consumer thread alone; no call blocks for work.

    Every method raises BrokerUnavailable when the connection is gone. A new transport on a new connection then says
    by ``renew`` which leases outlived it.
    """

    def reserve(self, most: int, queue: str = "") -> list[Delivery]:
        """Up to ``most`` messages, the most urgent first, leased in the same step that takes them.

        Args:
            queue: the one queue to take from; all of them if none is named.
        """
        ...

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Removes them for good, in one call. One whose lease was lost is left alone."""
        ...

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """Gives them back, unchanged, to the front of their queues."""
        ...

    def move(self, deliveries: Sequence[Delivery], queue: str) -> None:
        """Puts them, unchanged, at the end of another queue."""
        ...

    def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Makes their leases last a full period again; returns those that are lost to us.

        On the way it puts back what dead workers held, where the broker does not do so itself.
        """
        ...

    def credit(self, most: int) -> None:
        """How many a reserve may ask for from now on: a broker that pushes sends so many a queue, and none before."""
        ...

    def wait(self, ready: Callable[[], None]) -> None:
        """Has ``ready`` called, on the consumer thread, when there may be work. Never polls hot."""
        ...

    def close(self) -> None:
        """Takes and rings no more. What is held stays leased where leases outlive connections, or goes back."""
        ...


class Monitor(Protocol):
    """Tells whoever watches what becomes of tickets. Called by the consumer thread alone; never raises."""

    def reserved(self, stubs: Sequence[Stub]) -> None:
        """They are ours now."""
        ...

    def entered(self, ticket_ids: Sequence[str]) -> None:
        """They are in slots."""
        ...

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Their outcomes are in the ledger."""
        ...

    def cancelled(self, ticket_ids: Sequence[str]) -> None:
        """They were revoked or too late, and never begin."""
        ...

    def forgotten(self, ticket_ids: Sequence[str]) -> None:
        """They are not ours any more, and nothing became of them here."""
        ...

    def flush(self) -> None:
        """Sends what was told since the last time."""
        ...


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket to be marked running.

    Attributes:
        lost: begin it only if it was lost no more often than this: each time, a worker that had begun it ended without
            a word. One that was lost may be what ended them, and must not begin beside tickets that were not.
        revoked: somebody withdrew it; it is cancelled instead, if nobody has begun it yet.
    """

    delivery: Delivery
    lost: int = 0
    revoked: bool = False


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket that is now running here.

    Attributes:
        start: counts how often it began, and so fences the commit of its outcome.
        tries: the same, without the times that it was given back untouched.
        lost: times that it began and nobody knows how it ended.
    """

    ticket: Ticket
    start: int
    tries: int
    lost: int


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome to commit. ``started_at`` to ``ended_at`` is its time in a slot."""

    ticket_id: str
    start: int
    outcome: Outcome
    batch: str
    batch_size: int
    started_at: datetime
    ended_at: datetime

    def given(self, answered: Mapping[str, Answered]) -> Settlement:
        """The same with the answer that was found for it, if one was."""
        found = answered.get(self.ticket_id)
        return self if found is None else msgspec.structs.replace(self, outcome=found)


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction did.

    Attributes:
        settled: ids of the tickets whose outcome counted. A lost lease's outcome does not.
        started: what now runs here, by ticket id. A stale or repeated message's ticket is not in it.
        lost: what was lost more often than its start allowed, and did not begin: how often, by ticket id.
        cancelled: what was revoked or too late, and did not begin: why, by ticket id.
        aliases: the other Celery task ids that settled tickets' answers are asked for by, if anybody stores results.
        answered: parked tickets that got an answer given before, by ticket id.
        breakers: all of them, by name, if this worker wants them.
        turned: breakers that this transaction changed, before and after.
    """

    settled: frozenset[str] = frozenset()
    started: Mapping[str, Started] = {}
    lost: Mapping[str, int] = {}
    cancelled: Mapping[str, str] = {}
    aliases: Mapping[str, Sequence[str]] = {}
    answered: Mapping[str, Answered] = {}
    breakers: Mapping[str, Breaker] = {}
    turned: Sequence[tuple[Breaker, Breaker]] = ()


class Ledger(Protocol):
    """The worker's side of the ledger. Called by the settler thread alone.

    Every method is one transaction and raises LedgerUnavailable when it did not happen.
    """

    def commit(
        self,
        settlements: Sequence[Settlement],
        starts: Sequence[Start],
        worker: str,
        now: datetime,
        news: Sequence[News] = (),
    ) -> Committed:
        """Settles the outcomes of one batch and marks the queued tickets of the next one running, together.

        Args:
            news: changes to breakers.
        """
        ...

    def stray(self, deliveries: Sequence[Delivery], reason: str, now: datetime) -> None:
        """Keeps messages that are no ticket, bytes and all, for a person to look at."""
        ...

    def beat(self, worker: str, slots: int, model: str, now: datetime) -> None:
        """Says that this worker lives. The tickets of one that has gone quiet are queued again."""
        ...


class Results(Protocol):
    """Where Celery programs look for answers."""

    def store(self, outcomes: Mapping[str, Answered | Dead]) -> None:
        """Stores them by Celery task id. Never raises: the ledger has the answer whatever becomes of this."""
        ...


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket and what is wanted of it, on its way into a slot."""

    ticket: Ticket
    job: Job


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """A row that ended with an answer. Batch id and size are filled in by the drain."""

    ticket_id: str
    answer: Answer


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A row that ended without one, while its neighbours went on.

    Attributes:
        error: its row in the retry matrix.
        why: one line for the ticket's history.
        told: what an upstream said of coming back.
    """

    ticket_id: str
    error: str
    why: str
    told: Told = Told()


class DeviceLost(Exception):
    """The device will not compute again in this process: only a new one can use it."""


class StepFailed(Exception):
    """A step failed as a whole for some rows, while others go on.

    Args:
        lost: tickets that the engine no longer holds.
        out_of_memory: the device had too little memory.
        why: one line.
    """

    def __init__(self, lost: frozenset[str], out_of_memory: bool, why: str) -> None:
        super().__init__(why)
        self.lost = lost
        self.out_of_memory = out_of_memory


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine holds now. Shares are 0 to 1; ``memory_share`` is of the device the engine computes on.

    Attributes:
        kv_tokens: tokens that the KV cache of its smallest model has room for, beside what is shared; 0 if it has none.
        fragmentation: share of what the allocator holds that it can give to nobody.
        device: what it computes on: ``cpu``, or a device with memory of its own.
        utilization: share of the device's time that it computes; 0 where that is not known.
    """

    memory_used_bytes: int
    memory_total_bytes: int
    prompt_tokens: int
    reused_tokens: int
    slot_steps: int
    useful_slot_steps: int
    kv_tokens: int = 0
    fragmentation: float = 0.0
    device: str = "cpu"
    utilization: float = 0.0

    @property
    def memory_share(self) -> float:
        """Part of the device's memory in use."""
        return self.memory_used_bytes / self.memory_total_bytes


class Engine(Protocol):
    """Makes answers. Everything is called by the engine thread alone.

    A step that raises has failed as a whole: the engine then holds no rows and no device memory of theirs, but for a
    StepFailed, which says whose. The caller decides who runs again, and with whom. After a DeviceLost nobody runs
    here any more.
    """

    @property
    def model(self) -> str:
        """Name of the model that answers."""
        ...

    @property
    def running(self) -> int:
        """Slots in use."""
        ...

    def add(self, work: Work) -> None:
        """Takes a ticket into a slot; its prefill is part of the next step. Never raises for what a ticket says."""
        ...

    def step(self) -> list[Completed | Failed]:
        """Goes on to the next token boundary; returns the rows that ended there, their slots free again."""
        ...

    def drop(self, ticket_ids: Sequence[str]) -> None:
        """Forgets rows at this token boundary, without an answer."""
        ...

    def load(self) -> Load:
        """What it holds, measured now; counters since it was made."""
        ...

    def reclaim(self, step: Reclaim) -> int:
        """Frees what this step frees of the engine's memory; returns how many bytes."""
        ...

    def close(self) -> None:
        """Frees the model and the device's memory."""
        ...
