"""What the producer needs of the world, in our own words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from schemas.answer import TicketView
from schemas.envelope import Stub
from schemas.states import State
from schemas.ticket import Ticket
from schemas.verdict import Verdict


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A judged ticket on its way into the ledger.

    Attributes:
        state: where it begins: queued, in_review, rejected, or received (a backfill row that is held back).
        task_id: the Celery task id it came under, if any, so that ``AsyncResult`` finds its answer.
    """

    ticket: Ticket
    verdict: Verdict
    state: State
    task_id: str = ""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an arrival: its ticket's id, or the id of the one that was here before it."""

    ticket_id: str
    state: State
    duplicate: bool


class Ledger(Protocol):
    """The producer's side of the ledger. Every method is one transaction; LedgerUnavailable means it did not happen."""

    def accept(self, arrivals: Sequence[Arrival], now: datetime) -> list[Receipt]:
        """Writes tickets durably, one receipt an arrival, in order. Ones known before change nothing."""
        ...

    def unpublished(self, most: int, now: datetime) -> list[Stub]:
        """Queued tickets whose message is due and not on the broker yet, the most urgent first."""
        ...

    def published(self, stubs: Sequence[Stub], now: datetime) -> None:
        """Notes that the broker has confirmed these messages."""
        ...

    def wake(self, now: datetime) -> int:
        """Queues again what waited until now; returns how many."""
        ...

    def release_backfill(self, window: int, most: int, now: datetime) -> int:
        """Queues received backfill rows while fewer than ``window`` of them lie in the queue; returns how many."""
        ...

    def recall(self, silent_since: datetime, now: datetime) -> int:
        """Queues again, as a new delivery, running tickets whose worker has not been seen since; returns how many."""
        ...

    def suspects(self, published_before: datetime, most: int) -> list[Stub]:
        """Queued tickets whose message was published long ago: it may be gone from the broker."""
        ...

    def view(self, tenant: str, ticket_id: str) -> TicketView | None:
        """One ticket of that tenant with its answer; None if there is none."""
        ...

    def tenant_of_key(self, digest: str) -> str | None:
        """Whose API key has this SHA-256; None if nobody's or revoked."""
        ...


class Broker(Protocol):
    """The producer's side of the message broker. Raises BrokerUnavailable; then nothing counts as published."""

    def publish(self, stubs: Sequence[Stub]) -> None:
        """Puts messages on their priority queues; returns once the broker has confirmed every one."""
        ...

    def lost(self, suspects: Sequence[Stub]) -> list[Stub]:
        """Those of the suspects that the broker certainly no longer holds, queued or leased."""
        ...


class Gate(Protocol):
    """Admission. Pure but for what it remembers of the traffic."""

    def judge(self, ticket: Ticket, now: datetime) -> Verdict:
        """The verdict on one ticket at the door."""
        ...
