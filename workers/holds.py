"""What this worker holds: tickets with their messages, and messages without a ticket."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum, auto
from math import inf

import msgspec

from schemas.envelope import Stub
from schemas.job import Job
from schemas.outcome import Again, Outcome
from schemas.ticket import Ticket
from workers.ports import Delivery, Settlement, Started


class Stage(Enum):
    """How far a ticket has come here.

    A suspect was lost with its worker before, and waits until it may run apart. One that rests has failed, and waits
    for its next attempt.
    """

    SUSPECT = auto()
    STARTING = auto()
    READY = auto()
    INSIDE = auto()
    SETTLING = auto()
    RESTING = auto()


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket on its way into a slot or in it.

    Attributes:
        job: as it is asked, so that its model is the one that answers.
        tries: of this ticket, this one included.
        instead_of: the model whose fallback answers; empty if it is its job's own model.
    """

    ticket: Ticket
    job: Job
    tries: int
    instead_of: str = ""


class Hold(msgspec.Struct, eq=False):
    """A ticket that is ours, with every message of it that we hold; with none once its lease is lost.

    Attributes:
        due_s: when a resting one makes its next attempt.
        alone: the model that then answers it, one ticket at a time; empty: its job's own.
        job: as it is asked, once it may enter a slot.
    """

    stub: Stub
    deliveries: list[Delivery]
    reserved_s: float
    stage: Stage = Stage.STARTING
    started: Started | None = None
    lost: int = 0
    entered_s: float = 0.0
    due_s: float = 0.0
    alone: str = ""
    job: Job | None = None

    @property
    def rank(self) -> int:
        """0 for urgent."""
        return self.stub.priority.rank

    def limit_s(self, worker_s: float) -> float:
        """The longest it may stay in its slot, where this worker sets such a limit."""
        own_s = self.started.ticket.time_limit if self.started else None
        return min(worker_s, own_s) if own_s else worker_s

    def attempt(self, job: Job) -> Attempt:
        """What it makes in its slot."""
        assert self.started is not None
        asked = msgspec.structs.replace(job, model=self.alone) if self.alone else job
        instead_of = job.model if self.alone else ""
        return Attempt(ticket=self.started.ticket, job=asked, tries=self.started.tries, instead_of=instead_of)

    def settlement(
        self, outcome: Outcome, started_at: datetime, ended_at: datetime, batch: str = "", batch_size: int = 0
    ) -> Settlement:
        """What to commit for it. It was in no batch where none is given."""
        assert self.started is not None
        return Settlement(
            ticket_id=self.stub.id,
            start=self.started.start,
            outcome=outcome,
            batch=batch,
            batch_size=batch_size,
            started_at=started_at,
            ended_at=ended_at,
        )


class Holds:
    """Everything that this worker holds.

    Attributes:
        inside: how many are in slots.
        done: messages to be acknowledged.
        aside: messages that we can do nothing with now, to be offered again a moment later.
    """

    def __init__(self) -> None:
        self.inside = 0
        self.done: list[Delivery] = []
        self.aside: list[Delivery] = []
        self._by_id: dict[str, Hold] = {}
        self._starting: dict[str, Hold] = {}
        self._ready: list[Hold] = []
        self._suspects: list[Hold] = []
        self._resting: list[Hold] = []
        self._strays: dict[str, Delivery] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def messages_left(self) -> bool:
        """A message has still to be acknowledged or kept."""
        return bool(self.done or self._strays)

    @property
    def idle(self) -> bool:
        """Nobody begins, runs, or waits to be settled."""
        return len(self._by_id) == len(self._suspects)

    @property
    def suspects(self) -> Sequence[Hold]:
        """Those that were lost before, the most urgent first."""
        return self._suspects

    @property
    def coming(self) -> int:
        """Tickets that may enter a slot or soon will."""
        return len(self._ready) + len(self._starting) + len(self._resting)

    def ready_ranks(self) -> list[int]:
        """Of the tickets that may enter, the most urgent first."""
        return [hold.rank for hold in self._ready]

    def starting_ranks(self) -> list[int]:
        """Of the tickets whose start is being committed, the most urgent first."""
        return sorted(hold.rank for hold in self._starting.values())

    def take(self, stub: Stub, delivery: Delivery, now_s: float) -> Hold | None:
        """A message of a ticket: the ticket, if it is not ours yet."""
        known = self._by_id.get(stub.id)
        if known is None:
            hold = Hold(stub=stub, deliveries=[delivery], reserved_s=now_s)
            self._by_id[stub.id] = self._starting[stub.id] = hold
            return hold
        if stub.delivery == known.stub.delivery:
            known.deliveries.append(delivery)
        elif stub.delivery < known.stub.delivery:
            self.done.append(delivery)
        else:  # it was taken from us and queued anew; we shall learn of that when we settle it
            self.aside.append(delivery)
        return None

    def suspect(self, ticket_id: str, lost: int) -> None:
        """It was lost so often, and does not begin yet."""
        hold = self._starting.pop(ticket_id)
        hold.lost = lost
        hold.stage = Stage.SUSPECT
        insort(self._suspects, hold, key=lambda each: each.rank)

    def begin(self, count: int) -> list[Hold]:
        """The first so many suspects; their start is being committed now."""
        group, self._suspects = self._suspects[:count], self._suspects[count:]
        for hold in group:
            hold.stage = Stage.STARTING
            self._starting[hold.stub.id] = hold
        return group

    def start(self, ticket_id: str, started: Started) -> Hold:
        """It may enter a slot."""
        hold = self._starting.pop(ticket_id)
        hold.started = started
        hold.stage = Stage.READY
        insort(self._ready, hold, key=lambda each: each.rank)
        return hold

    def next_ready(self, count: int) -> list[Hold]:
        """The most urgent of those that may enter, so many; they do not wait any more."""
        entering, self._ready = self._ready[:count], self._ready[count:]
        return entering

    def enter(self, hold: Hold, now_s: float) -> None:
        """It is in a slot."""
        hold.stage = Stage.INSIDE
        hold.entered_s = now_s
        self.inside += 1

    def leave(self, hold: Hold) -> None:
        """Its outcome is known and will be settled; it is in no slot."""
        self.inside -= hold.stage is Stage.INSIDE
        if hold in self._resting:
            self._resting.remove(hold)
        hold.stage = Stage.SETTLING

    def failed(self, ticket_id: str, again: Again, due_s: float) -> None:
        """Its failed attempt is in the ledger; it makes another one then."""
        hold = self._by_id[ticket_id]
        assert hold.started is not None
        started = hold.started
        hold.started = msgspec.structs.replace(started, start=started.start + 1, tries=started.tries + 1)
        hold.alone = again.alone
        self.rest(hold, due_s)

    def rest(self, hold: Hold, due_s: float) -> None:
        """It may enter a slot, but not before then."""
        hold.stage, hold.due_s = Stage.RESTING, due_s
        insort(self._resting, hold, key=lambda each: each.due_s)

    def rested(self, now_s: float) -> list[Hold]:
        """Those that are due; they may enter a slot now. Of those that are answered alone, one at a time."""
        alone = any(hold.alone and hold.stage in (Stage.READY, Stage.INSIDE) for hold in self._by_id.values())
        due: list[Hold] = []
        for hold in self._resting:
            if hold.due_s <= now_s and not (hold.alone and alone):
                alone = alone or bool(hold.alone)
                due.append(hold)
        for hold in due:
            self._resting.remove(hold)
            hold.stage = Stage.READY
            insort(self._ready, hold, key=lambda each: each.rank)
        return due

    def next_due_s(self) -> float:
        """When the next of those that rest is due, whatever it still has to wait for then."""
        return min((hold.due_s for hold in self._resting if not hold.alone), default=inf)

    @property
    def resting(self) -> Sequence[Hold]:
        """Those that wait for another attempt."""
        return list(self._resting)

    def in_slot(self, ticket_id: str) -> Hold | None:
        """The ticket, if it is in a slot."""
        hold = self._by_id.get(ticket_id)
        return hold if hold is not None and hold.stage is Stage.INSIDE else None

    def all_in_slots(self) -> list[Hold]:
        """Those in slots."""
        return [hold for hold in self._by_id.values() if hold.stage is Stage.INSIDE]

    def let_go(self, ticket_id: str, *, keep_message: bool = False) -> None:
        """It is ours no more; its messages are acknowledged, or offered again."""
        self._starting.pop(ticket_id, None)
        hold = self._by_id.pop(ticket_id)
        if hold.stage is Stage.SUSPECT:
            self._suspects.remove(hold)
        if hold in self._resting:
            self._resting.remove(hold)
        (self.aside if keep_message else self.done).extend(hold.deliveries)

    def stray(self, delivery: Delivery) -> None:
        """A message that is no ticket, while it is being kept."""
        self._strays[delivery.token] = delivery

    def strayed(self, deliveries: Sequence[Delivery]) -> None:
        """They are kept."""
        for delivery in deliveries:
            self._strays.pop(delivery.token, None)
        self.done.extend(deliveries)

    def leased(self) -> list[Delivery]:
        """Every message whose lease has to be renewed."""
        ours = (delivery for hold in self._by_id.values() for delivery in hold.deliveries)
        return [*ours, *self._strays.values(), *self.aside]

    def lost(self, deliveries: Iterable[Delivery]) -> None:
        """These leases are over. Their tickets go on: whether their outcomes count, the ledger knows."""
        gone = {delivery.token for delivery in deliveries}
        if gone:
            self.aside = [delivery for delivery in self.aside if delivery.token not in gone]
            for hold in self._by_id.values():
                hold.deliveries = [delivery for delivery in hold.deliveries if delivery.token not in gone]
            for hold in [hold for hold in self._suspects if not hold.deliveries]:
                self.let_go(hold.stub.id)
