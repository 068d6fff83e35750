"""Every error Ticketmill raises on purpose.

::

    TicketmillError
    ├── Refused             bad input: names the field and says why
    │   └── SettingRefused  bad configuration: names the setting and how to mend it
    ├── NotFound            nothing under that id for this tenant
    ├── ForbiddenMove       a change of state that the state machine does not know
    ├── NotAnswered         a ticket that was given up
    ├── ModelRefused        a model that cannot serve: says what to do
    └── Unavailable         a part that we need does not answer
        ├── BrokerUnavailable
        ├── LedgerUnavailable
        └── LedgerNotMigrated
"""

from __future__ import annotations


class TicketmillError(Exception):
    """Root of the tree. ``str(error)`` is one line, fit for the person who reads it."""


class Refused(TicketmillError):
    """Input that is turned away at the door.

    Args:
        field: dotted path of the field at fault, for instance ``"metadata.order"``.
        why: what is wrong with it and what would be right.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


class SettingRefused(Refused):
    """A setting in ``ticketmill.yaml`` or the environment that cannot be used."""


class NotFound(TicketmillError):
    """No such thing, or not yours: the two are never told apart."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"there is no {what} {name!r}")
        self.what = what
        self.name = name


class ForbiddenMove(TicketmillError):
    """A ticket was asked to go from one state to another that does not follow it."""

    def __init__(self, ticket_id: str, before: str, after: str) -> None:
        super().__init__(f"ticket {ticket_id} cannot go from {before} to {after}")
        self.ticket_id = ticket_id
        self.before = before
        self.after = after


class NotAnswered(TicketmillError):
    """A ticket was given up; a Celery program that waits for its result gets this with the reason."""


class ModelRefused(TicketmillError):
    """A model that cannot be loaded or cannot do its job.

    Args:
        model: its name or directory.
        why: what is wrong.
        fix: what the operator should do next.
    """

    def __init__(self, model: str, why: str, fix: str) -> None:
        super().__init__(f"model {model}: {why}. {fix}")
        self.model = model
        self.why = why
        self.fix = fix


class Unavailable(TicketmillError):
    """A part that we depend on does not answer.

    Args:
        part: what it is, with its address and without its password.
        why: the driver's own words, on one line.
        fix: what to check next.
    """

    def __init__(self, part: str, why: str, fix: str) -> None:
        super().__init__(f"{part}: {why}. {fix}")
        self.part = part
        self.why = why
        self.fix = fix


class BrokerUnavailable(Unavailable):
    """The message broker cannot be reached or refuses what we send."""


class LedgerUnavailable(Unavailable):
    """The ledger cannot be reached, is full, or is read-only."""


class LedgerNotMigrated(Unavailable):
    """The ledger's tables are missing or of another version."""
