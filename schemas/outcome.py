"""An outcome: how one ticket's stay in a slot ended. A closed union: settlement handles each kind."""

from __future__ import annotations

from datetime import datetime

import msgspec

from schemas.answer import Answer


class Asked(msgspec.Struct, frozen=True):
    """What was asked, so that the answer can be given again.

    Attributes:
        digest: of all of it, and of who asked.
        kin: of all but the ticket's own words; empty if only the very same question will do.
        vector: of those words, as float16; empty if there is none.
    """

    digest: str
    kin: str = ""
    vector: bytes = b""


class Answered(msgspec.Struct, frozen=True):
    """The engine answered.

    Attributes:
        asked: what was; None if the answer must not be given again.
    """

    answer: Answer
    asked: Asked | None = None


class Retry(msgspec.Struct, frozen=True):
    """The attempt failed; the ticket waits until ``due_at`` and then goes back to its queue.

    Attributes:
        tried: it was an attempt; if not, it does not count as one.
    """

    due_at: datetime
    reason: str
    tried: bool = True


class Again(msgspec.Struct, frozen=True):
    """The attempt failed, and the same worker makes another at ``due_at``: it keeps the ticket meanwhile.

    Attributes:
        alone: the model that answers it then, one ticket at a time; empty: its job's own, with all others.
        tried: it was an attempt; if not, nothing is written of it.
    """

    due_at: datetime
    reason: str
    alone: str = ""
    tried: bool = True


class Returned(msgspec.Struct, frozen=True):
    """The ticket goes back to its queue at once and untouched: lease lost, preempted, or the worker is told to stop."""

    reason: str


class Parked(msgspec.Struct, frozen=True):
    """The ticket waits off the queue until its upstream recovers.

    Attributes:
        upstream: name of its model under ``models``.
        back_at: it does not return before then.
        asked: what is: if that was answered not long before, the ticket is answered so, and not parked.
        tried: it was an attempt; if not, it does not count as one.
    """

    reason: str
    upstream: str
    back_at: datetime
    asked: Asked | None = None
    tried: bool = True


class Dead(msgspec.Struct, frozen=True):
    """Given up, with a reason that a person can act on."""

    reason: str


class Cancelled(msgspec.Struct, frozen=True):
    """Withdrawn while it ran."""

    reason: str


Outcome = Answered | Retry | Again | Returned | Parked | Dead | Cancelled
