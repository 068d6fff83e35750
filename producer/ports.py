"""What the producer needs of the world, in our own words. Each port has one contract suite, run on every adapter.

Every method of a ledger's port is one transaction, and raises LedgerUnavailable when it did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from schemas.answer import Answer, TicketView
from schemas.envelope import Stub
from schemas.review import Done, Holder, Order, Page, Role, Ruling, Sheet, Wanted
from schemas.states import State
from schemas.ticket import Priority, Ticket
from schemas.verdict import Code, Verdict


class Arrival(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A judged ticket on its way into the ledger.

    Attributes:
        state: where it begins: queued, in_review, rejected, or received (a backfill ticket that is held back).
        task_id: the Celery task id it came under, if any, so that ``AsyncResult`` finds its answer.
        not_before: when it may be published at the earliest.
    """

    ticket: Ticket
    verdict: Verdict
    state: State
    task_id: str = ""
    not_before: datetime | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of an arrival: its ticket's id, or the id of the one that was here before it.

    Attributes:
        reason: why, where a ticket was rejected or went to review; ``code`` says it in one word.
        stub: the message to publish for it now; None for a duplicate and for what is not due yet.
    """

    ticket_id: str
    state: State
    duplicate: bool
    reason: str = ""
    code: Code = Code.NONE
    stub: Stub | None = None


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """A message that could not become a ticket, kept for a person to look at. ``id`` is the same for the same bytes."""

    id: str
    queue: str
    reason: str
    headers: bytes
    body: bytes


class Ledger(Protocol):
    """Tickets as the doors see them."""

    def accept(self, arrivals: Sequence[Arrival], now: datetime) -> list[Receipt]:
        """Writes tickets durably, one receipt an arrival, in order. Ones known before change nothing."""
        ...

    def keep(self, strays: Sequence[Stray], now: datetime) -> None:
        """Keeps messages that are no ticket; those kept before change nothing."""
        ...

    def view(self, tenant: str, ticket_id: str) -> TicketView | None:
        """One ticket of that tenant with its answer; None if there is none."""
        ...

    def views(self, tenant: str, ticket_ids: Sequence[str]) -> dict[str, TicketView]:
        """Those of the tickets that are there and that tenant's, by id."""
        ...

    def find(self, tenant: str, external_id: str, source: str = "") -> list[TicketView]:
        """Tickets known by that external id, every revision, the newest first; from every source if none is named."""
        ...


Judge = Callable[[Sequence[Ticket]], Sequence[Verdict]]
"""Gives one verdict a ticket, in order."""


Room = Callable[[Priority, str], int]
"""How many more tickets of that priority and tenant there is room for."""


class Outbox(Protocol):
    """Tickets on their way to the broker."""

    def unpublished(
        self, most: int, due_before: datetime, room: Room | None = None, without: Collection[str] = ()
    ) -> list[Stub]:
        """Queued tickets that are due and whose message is not on the broker yet, the most urgent first.

        Args:
            most: in all; of each tenant and priority, where ``room`` says how many of those are wanted.
            without: jobs that are not wanted.
        """
        ...

    def under_way(self, tenants: Collection[str], jobs: Collection[str]) -> dict[str, tuple[str, str]]:
        """Tickets of these tenants or jobs that are published or run: tenant and job by id."""
        ...

    def still_under_way(self, ticket_ids: Collection[str]) -> list[str]:
        """Those of them that are published or run."""
        ...

    def published(self, stubs: Sequence[Stub], now: datetime) -> None:
        """Notes that the broker has confirmed these messages."""
        ...

    def wake(self, most: int, now: datetime) -> list[Stub]:
        """Queues again what waited until now; returns what to publish."""
        ...

    def unpark(self, most: int, now: datetime) -> list[Stub]:
        """Queues again what waited for an upstream that works again, or might; returns what to publish."""
        ...

    def release_backfill(self, window: int, most: int, judge: Judge, now: datetime) -> list[Stub]:
        """Queues received backfill tickets while fewer than ``window`` of them are queued; returns what to publish.

        What ``judge`` does not accept is rejected, or goes to review.
        """
        ...


class Books(Protocol):
    """What the ledger believes to be on its way, for comparison with what really is."""

    def take_duty(self, name: str, holder: str, until: datetime, now: datetime) -> bool:
        """Makes the duty ``holder``'s until then. False while it is somebody else's."""
        ...

    def drop_duty(self, name: str, holder: str) -> None:
        """Leaves a duty to whoever wants it next."""
        ...

    def recall(self, silent_since: datetime, most: int, now: datetime) -> list[Stub]:
        """Queues again, as new deliveries, running tickets whose worker has not been seen since; what to publish."""
        ...

    def let_pass(self, held_since: datetime, most: int, now: datetime) -> int:
        """Puts into the outbox what has been held since then by earlier tickets that are in review or parked.

        Of each conversation the earliest alone, so that those held keep their order among themselves; how many.
        """
        ...

    def queued(self, published_before: datetime | None = None) -> Mapping[Priority, int]:
        """How many tickets of each priority are queued; only those that should lie on the broker since then, if given.

        The first question is cheap, also where a million are queued.
        """
        ...

    def suspects(self, priority: Priority, published_before: datetime, after_id: str, most: int) -> list[Stub]:
        """Some of those, by id: a page that begins after ``after_id``."""
        ...

    def forget(self, stubs: Sequence[Stub]) -> int:
        """Takes back that these were published, where they are still queued; the outbox then holds them again."""
        ...


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as it is listed. The key itself is shown once, when it is made, and kept nowhere."""

    id: str
    tenant: str
    label: str
    role: Role
    created_at: datetime
    revoked_at: datetime | None = None


class KeyRing(Protocol):
    """The API keys. A digest is the SHA-256 of a key in hexadecimal."""

    def add(self, tenant: str, label: str, digest: str, now: datetime, role: Role = Role.SENDER) -> Key:
        """Notes a key by its digest."""
        ...

    def revoke(self, key_id: str, now: datetime) -> None:
        """Ends a key; raises NotFound where there is none with that id. One revoked before stays as it was."""
        ...

    def listed(self) -> list[Key]:
        """Every key that was ever made, the oldest first."""
        ...

    def tenant_of(self, digest: str) -> str | None:
        """Whose key has this digest, if it is one to send with; None if nobody's, revoked, or a reviewer's."""
        ...

    def holder(self, digest: str) -> Holder | None:
        """Who holds the key with this digest; None if nobody, or revoked."""
        ...


class Sessions(Protocol):
    """Who is signed in to the page. A digest is the SHA-256 of a session's cookie in hexadecimal."""

    def begin_session(self, digest: str, holder: Holder, until: datetime, now: datetime) -> None:
        """Notes by its digest that somebody is signed in until then; forgets whose time is over."""
        ...

    def in_session(self, digest: str, now: datetime) -> Holder | None:
        """Who is signed in so; None once the time is over, the session ended or the key revoked."""
        ...

    def end_session(self, digest: str) -> None:
        """Signs out."""
        ...


class Reviews(Protocol):
    """What reviewers do."""

    def carry_out(self, who: Holder, order: Order, now: datetime) -> Done:
        """Does what can be done of an order, and says of every other ticket why not. Raises Refused for nonsense."""
        ...


class ReviewLists(Protocol):
    """What reviewers see. Nobody but an operator sees another tenant's tickets."""

    def page(self, who: Holder, wanted: Wanted, now: datetime) -> Page:
        """A page of a lane: the oldest first, or in an order of chance where it is a sample."""
        ...

    def sheet(self, who: Holder, ticket_id: str, unseen: bool, now: datetime) -> Sheet | None:
        """One ticket whole, without what others said of it if ``unseen``; None if there is none for this person."""
        ...

    def rulings(self, tenant: str = "") -> Iterator[Ruling]:
        """Every decision on that tenant's tickets, or on all, the oldest first."""
        ...


class Broker(Protocol):
    """The producer's side of the message broker. Raises BrokerUnavailable; then nothing counts as published."""

    def publish(self, stubs: Sequence[Stub]) -> None:
        """Puts messages on their priority queues; returns once the broker has confirmed every one."""
        ...

    def lengths(self) -> Mapping[Priority, int]:
        """How many messages lie on each queue, for anyone to take."""
        ...

    def held(self) -> Mapping[Priority, int]:
        """How many messages it holds, queued or leased. A priority for which it cannot tell is left out."""
        ...

    def lost(self, suspects: Sequence[Stub]) -> list[Stub]:
        """Those of the suspects that the broker no longer holds, queued or leased."""
        ...

    def close(self) -> None:
        """Lets go of its connection."""
        ...


class RawMessage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A Celery message from the inlet, taken apart but not understood.

    Attributes:
        headers: its application headers, or None if it is no Celery message at all: ``body`` is then all there was.
        content_type, content_encoding, compression: what its sender says of ``body``.
        token: the inlet's own handle.
    """

    headers: dict[str, Any] | None
    body: bytes
    content_type: str = ""
    content_encoding: str = ""
    compression: str = ""
    token: Any = None


class Inlet(Protocol):
    """The queue of raw Celery messages. A message stays there until it is done. Raises BrokerUnavailable."""

    def receive(self, most: int, wait_s: float) -> list[RawMessage]:
        """Up to ``most`` messages, the oldest first; waits for some for about so long."""
        ...

    def done(self, messages: Sequence[RawMessage]) -> None:
        """Removes all that the last ``receive`` gave."""
        ...

    def close(self) -> None:
        """Lets go of its connection."""
        ...


class Results(Protocol):
    """Where Celery callers look for what became of their task. What cannot be stored is logged, and holds nobody up."""

    def answered(self, task_id: str, answer: Answer) -> None:
        """``AsyncResult(task_id).get()`` gives the answer."""
        ...

    def failed(self, task_id: str, reason: str) -> None:
        """``AsyncResult(task_id).get()`` raises, with this reason."""
        ...


class Caller(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who makes a request, as far as the door can tell.

    Attributes:
        address: the IP address that the request came from.
        agent: what its program calls itself.
        key: whose key it holds: the first letters of the key's digest.
        path: what it asks for, so that asking and sending are counted apart.
    """

    address: str
    agent: str
    key: str
    path: str


class Gate(Protocol):
    """Admission. Any thread may ask."""

    def judge(self, tickets: Sequence[Ticket], now: datetime) -> list[Verdict]:
        """One verdict a ticket at the door, in order."""
        ...

    def judge_held(self, tickets: Sequence[Ticket]) -> list[Verdict]:
        """The same for tickets of the past: what they say counts, how often and how fast they come does not."""
        ...

    def knock(self, caller: Caller, now: datetime) -> Verdict:
        """Whether a request may come in at all, before anything of it is read: accepted or throttled."""
        ...


class Rates(Protocol):
    """What all doors together count. Never raises: a counter that is away lets everyone through."""

    def hit(self, name: str, limit: int, window_s: float) -> bool:
        """Counts one; False once more than ``limit`` came within any ``window_s``."""
        ...


class Tally(Protocol):
    """What becomes of all those verdicts."""

    def counted(
        self, counts: Mapping[tuple[str, str, str], int], samples: Sequence[tuple[Ticket, Verdict]], now: datetime
    ) -> None:
        """Adds to the counts by tenant, action and code, and keeps some verdicts that left no ticket behind."""
        ...
