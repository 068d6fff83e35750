"""An outcome: how one ticket's stay in a slot ended. A closed union: settlement handles each kind."""

from __future__ import annotations

from datetime import datetime

import msgspec

from schemas.answer import Answer


class Answered(msgspec.Struct, frozen=True):
    """The engine answered."""

    answer: Answer


class Retry(msgspec.Struct, frozen=True):
    """The attempt failed; the ticket waits until ``due_at`` and then goes back to its queue."""

    due_at: datetime
    reason: str


class Returned(msgspec.Struct, frozen=True):
    """The ticket goes back to its queue at once and untouched: lease lost, preempted, or the worker is told to stop."""

    reason: str


class Parked(msgspec.Struct, frozen=True):
    """The ticket waits off the queue until its upstream recovers."""

    reason: str


class Dead(msgspec.Struct, frozen=True):
    """Given up, with a reason that a person can act on."""

    reason: str


Outcome = Answered | Retry | Returned | Parked | Dead
