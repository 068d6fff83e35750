"""The states of a ticket and the moves between them. Pure; the ledger enforces it in one place."""

from __future__ import annotations

from enum import StrEnum

from schemas.errors import ForbiddenMove


class State(StrEnum):
    """Where a ticket is. Every ticket is in exactly one."""

    RECEIVED = "received"
    REJECTED = "rejected"
    IN_REVIEW = "in_review"
    QUEUED = "queued"
    RUNNING = "running"
    ANSWERED = "answered"
    WAITING = "waiting"
    PARKED = "parked"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Nothing moves a ticket out of here but a person: who re-queues a dead one, or accepts a rejected one."""
        return self in FINAL


_S = State
FINAL = frozenset({_S.ANSWERED, _S.REJECTED, _S.DEAD, _S.CANCELLED})

MOVES: dict[State, frozenset[State]] = {
    _S.RECEIVED: frozenset({_S.REJECTED, _S.IN_REVIEW, _S.QUEUED, _S.CANCELLED}),
    _S.REJECTED: frozenset({_S.QUEUED, _S.IN_REVIEW}),
    _S.IN_REVIEW: frozenset({_S.QUEUED, _S.REJECTED, _S.CANCELLED}),
    _S.QUEUED: frozenset({_S.QUEUED, _S.RUNNING, _S.DEAD, _S.CANCELLED, _S.IN_REVIEW, _S.REJECTED}),
    _S.RUNNING: frozenset({_S.ANSWERED, _S.WAITING, _S.PARKED, _S.DEAD, _S.QUEUED, _S.RUNNING, _S.CANCELLED}),
    _S.WAITING: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.PARKED: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.DEAD: frozenset({_S.QUEUED}),
    _S.ANSWERED: frozenset(),
    _S.CANCELLED: frozenset(),
}
"""What may follow what.

``running → running`` is a takeover: the message was delivered again because its worker is gone.
``queued → dead`` is a ticket that no worker could even start (its job is gone), or that came too late.
``queued → queued`` is one that came too late and is answered all the same, at low priority.
A person may accept what was ``rejected``; ``queued → in_review | rejected`` and ``rejected → in_review`` are a
reviewer's undo.
"""


def check_move(ticket_id: str, before: State, after: State) -> None:
    """Raises ForbiddenMove unless ``after`` may follow ``before``."""
    if after not in MOVES[before]:
        raise ForbiddenMove(ticket_id, before, after)
