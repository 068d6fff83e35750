"""What the drain needs of the ledger, and whom it tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from schemas.breaker import Breaker
from schemas.envelope import Stub
from schemas.job import Late
from schemas.outcome import Answered, Dead, Outcome
from schemas.ticket import Ticket
from workers.ports.transport import Delivery
from workers.upstreams import News


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket to be marked running.

    Attributes:
        lost: begin it only if it was lost no more often than this: each time, a worker that had begun it ended without
            a word. One that was lost may be what ended them, and must not begin beside tickets that were not.
        revoked: somebody withdrew it; it is cancelled instead, if nobody has begun it yet.
        late: what its job has for a ticket whose deadline has passed.
    """

    delivery: Delivery
    lost: int = 0
    revoked: bool = False
    late: Late = Late.DEAD


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


class Results(Protocol):
    """Where Celery programs look for answers."""

    def store(self, outcomes: Mapping[str, Answered | Dead]) -> None:
        """Stores them by Celery task id. Never raises: the ledger has the answer whatever becomes of this."""
        ...
