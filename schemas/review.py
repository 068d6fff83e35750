"""Human review: who may judge, what a reviewer says of tickets, and what the queue shows of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from schemas.states import State
from schemas.ticket import MAX_BODY_CHARS

MOST_AT_ONCE = 200
"""Tickets in one request, and in one page of a list."""


class Role(StrEnum):
    """What a key is for."""

    SENDER = "sender"
    REVIEWER = "reviewer"
    OPERATOR = "operator"

    @property
    def sends(self) -> bool:
        """May send tickets and read answers."""
        return self is not Role.REVIEWER

    @property
    def reviews(self) -> bool:
        """May judge tickets."""
        return self is not Role.SENDER


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a key. ``label`` is what colleagues see."""

    id: str
    tenant: str
    label: str
    role: Role


class Lane(StrEnum):
    """The three lists of tickets that a reviewer can open."""

    OPEN = "open"
    """In review: they wait for a person."""
    REJECTED = "rejected"
    """Turned away and judged by nobody yet, in an order of chance: the first of them are a fair sample."""
    SECOND = "second"
    """A sample of decisions, for the second opinion of somebody else, who is not told the first."""


class Step(StrEnum):
    """What a reviewer does."""

    CLAIM = "claim"
    RELEASE = "release"
    ACCEPT = "accept"
    REJECT = "reject"
    SKIP = "skip"
    NOTE = "note"
    UNDO = "undo"


class Why(StrEnum):
    """Why a ticket was decided so, in one word: the code that the gate learns from."""

    NONE = ""
    HONEST = "honest"
    CREATIVE = "creative"
    MACHINE = "machine_text"
    SPAM = "spam"
    SCAM = "scam"
    FLOOD = "flood"
    ABUSE = "abuse"
    OTHER = "other"


ACCEPTS = (Why.HONEST, Why.CREATIVE, Why.MACHINE, Why.OTHER)
REJECTS = (Why.SPAM, Why.SCAM, Why.FLOOD, Why.ABUSE, Why.OTHER)


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a ticket says from now on. What it said before stays with the decision."""

    body: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BODY_CHARS)]
    subject: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step, for one ticket or for many.

    Attributes:
        tickets: their ids; none for ``undo``, which takes back this reviewer's last decision or skip.
        lane: the list in which the reviewer saw them; ``second`` makes a decision a second opinion.
        reason: must be given to reject.
        edit: accept this text in place of the ticket's; one ticket only.
    """

    step: Step
    tickets: Annotated[list[Annotated[str, msgspec.Meta(max_length=36)]], msgspec.Meta(max_length=MOST_AT_ONCE)] = []
    lane: Lane = Lane.OPEN
    reason: Why = Why.NONE
    note: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    edit: Edit | None = None


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket with which nothing was done, and why."""

    id: str
    why: str


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order, ticket by ticket."""

    done: list[str]
    refused: list[Turned] = []


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which tickets of a lane to show; what is empty does not choose.

    Attributes:
        reason: part of what the gate said, or its code.
        older_s: only tickets that have waited at least so long, in seconds.
        ticket: an id or an external id. In ``rejected`` it also finds what a person has judged.
        after: the id after which the page begins.
    """

    lane: Lane = Lane.OPEN
    tenant: str = ""
    job: str = ""
    source: str = ""
    language: str = ""
    reason: str = ""
    older_s: int = 0
    ticket: str = ""
    after: str = ""
    most: int = 100


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket as the list shows it.

    Attributes:
        excerpt: the beginning of its text.
        why: what the gate said.
        code: the gate's reason in one word; empty if the gate did not keep it.
        claimed_by: who has it open just now, if anyone; ``mine`` if that is who asks.
    """

    id: str
    tenant: str
    source: str
    external_id: str
    job: str
    priority: str
    language: str
    customer: str
    subject: str
    excerpt: str
    state: State
    received_at: datetime
    why: str
    code: str
    claimed_by: str = ""
    claimed_until: datetime | None = None
    mine: bool = False


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some tickets of a lane, how many each lane holds (counted up to ``COUNTED``), and what ages mean."""

    items: list[Item]
    counts: dict[str, int]
    now: datetime
    sla_s: float


COUNTED = 1000
"""A lane is counted no further: for a person more is just many."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a ticket's history: a change of state."""

    at: datetime
    before: str
    after: str
    reason: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a reviewer said of a ticket. ``undone`` ones no longer count."""

    at: datetime
    reviewer: str
    step: Step
    reason: str
    note: str
    second: bool
    edited: bool
    undone: bool


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """All there is to say of one ticket. Without history and decisions where a second opinion is asked."""

    item: Item
    body: str
    metadata: dict[str, str | int | float | bool | None]
    scores: dict[str, float]
    history: list[Change]
    decisions: list[Decision]


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """One decision as it is exported, with what the gate had said of the ticket."""

    at: datetime
    ticket: str
    tenant: str
    source: str
    external_id: str
    job: str
    state: str
    reviewer: str
    step: str
    reason: str
    note: str
    was: str
    second_opinion: bool
    edited: bool
    undone: bool
    gate_code: str
    gate_said: str
