"""Intake: what a producer sends becomes a ticket with an id, is judged at the gate, and is written to the ledger.

A ticket is accepted once ``take_in`` has returned its receipt: it is durable then. Publishing comes after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

import msgspec

from producer.ports import Arrival, Gate, Ledger, Receipt
from schemas.states import State
from schemas.ticket import NewTicket, Priority, Ticket
from schemas.verdict import Action, Code, Verdict


class Incoming(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A ticket as it came to a door.

    Attributes:
        tenant: whose it is; never taken from what the ticket says.
        task_id: the Celery task id it came under, if any.
        not_before: when it may be worked on at the earliest.
        can_wait: its sender cannot be told to come back: where it comes too fast, it is taken in and waits here.
    """

    ticket: NewTicket
    tenant: str
    task_id: str = ""
    not_before: datetime | None = None
    can_wait: bool = False


class TurnedAway(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket that nothing was written for.

    Attributes:
        code: why, in one word, where it was the gate that turned it away.
        retry_after_s: when to send it again; None if it will never do as it is.
    """

    field: str
    why: str
    code: Code = Code.NONE
    retry_after_s: float | None = None


class Intake:
    """The one way in, for every door.

    Args:
        jobs: the names of the jobs that a ticket may ask for.
        new_ids: gives so many ids that sort by time.
    """

    def __init__(
        self, ledger: Ledger, gate: Gate, jobs: Collection[str], new_ids: Callable[[datetime, int], list[str]]
    ) -> None:
        self._ledger = ledger
        self._gate = gate
        self._jobs = frozenset(jobs)
        self._new_ids = new_ids

    def take_in(self, incoming: Sequence[Incoming], now: datetime) -> list[Receipt | TurnedAway]:
        """What became of each, in order. Those with a receipt are durable.

        Raises:
            LedgerUnavailable: none of them was taken in.
        """
        outcomes: list[Receipt | TurnedAway | None] = [self._refusal(each.ticket) for each in incoming]
        wanted = [at for at, refused in enumerate(outcomes) if refused is None]
        ids = self._new_ids(now, len(wanted))
        tickets = [_ticket(incoming[at], new_id, now) for at, new_id in zip(wanted, ids, strict=True)]
        arrivals: list[Arrival] = []
        places: list[int] = []
        for at, ticket, verdict in zip(wanted, tickets, self._verdicts(tickets, now), strict=True):
            came = incoming[at]
            not_before = came.not_before
            if verdict.action is Action.THROTTLE:
                if not came.can_wait:
                    outcomes[at] = _throttled(verdict)
                    continue
                not_before = max(not_before or now, now + timedelta(seconds=verdict.retry_after_s or 0.0))
            if not verdict.kept and not came.can_wait:
                outcomes[at] = TurnedAway(field="ticket", why="; ".join(verdict.reasons), code=verdict.code)
                continue
            state = _first_state(verdict, ticket.priority)
            arrivals.append(
                Arrival(ticket=ticket, verdict=verdict, state=state, task_id=came.task_id, not_before=not_before)
            )
            places.append(at)
        if arrivals:
            for at, receipt in zip(places, self._ledger.accept(arrivals, now), strict=True):
                outcomes[at] = receipt
        return [outcome for outcome in outcomes if outcome is not None]

    def _verdicts(self, tickets: Sequence[Ticket], now: datetime) -> list[Verdict]:
        """Of each ticket; one of the backfill is accepted here and judged when it is released."""
        judged = iter(self._gate.judge([each for each in tickets if each.priority is not Priority.BACKFILL], now))
        return [_HELD_BACK if each.priority is Priority.BACKFILL else next(judged) for each in tickets]

    def _refusal(self, ticket: NewTicket) -> TurnedAway | None:
        if ticket.job in self._jobs:
            return None
        return TurnedAway(field="job", why=f"there is no job {ticket.job!r}; jobs are {', '.join(sorted(self._jobs))}")


def _ticket(incoming: Incoming, new_id: str, now: datetime) -> Ticket:
    ticket_id = incoming.task_id if _UUID.fullmatch(incoming.task_id) else new_id
    fields = msgspec.structs.asdict(incoming.ticket)
    fields["external_id"] = incoming.ticket.external_id or incoming.task_id or ticket_id
    return Ticket(id=ticket_id, tenant=incoming.tenant, received_at=now, **fields)


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


_HELD_BACK = Verdict()


def _first_state(verdict: Verdict, priority: Priority) -> State:
    if verdict.action is Action.REJECT:
        return State.REJECTED
    if verdict.action is Action.REVIEW:
        return State.IN_REVIEW
    return State.RECEIVED if priority is Priority.BACKFILL else State.QUEUED


def _throttled(verdict: Verdict) -> TurnedAway:
    wait_s = 1.0 if verdict.retry_after_s is None else verdict.retry_after_s
    why = "; ".join(verdict.reasons) or "too many tickets"
    return TurnedAway(field="ticket", why=why, code=verdict.code, retry_after_s=wait_s)
