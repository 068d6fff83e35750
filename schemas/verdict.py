"""A verdict: what admission says of a ticket at the door."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Action(StrEnum):
    """The four things that can be done with a ticket at the door."""

    ACCEPT = "accept"
    THROTTLE = "throttle"
    REVIEW = "review"
    REJECT = "reject"


class Code(StrEnum):
    """Why, in one word that programs can act on. A verdict has that of its gravest reason."""

    NONE = ""
    SHAPE = "shape"
    SPAM = "spam"
    COPIES = "copies"
    CREATIVE = "creative"
    SAMPLE = "sample"
    RATE = "rate"
    CHALLENGED = "challenged"
    BLOCKED = "blocked"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What admission says of one ticket.

    Attributes:
        code: the gravest reason; none for what is accepted without any.
        reasons: plain sentences for the person who asks why.
        scores: what each signal measured, by its name.
        retry_after_s: for a throttle: when to come back.
        kept: the ledger keeps a ticket that was rejected; in a flood not all of them are.
    """

    action: Action = Action.ACCEPT
    code: Code = Code.NONE
    reasons: tuple[str, ...] = ()
    scores: dict[str, float] = {}
    retry_after_s: float | None = None
    kept: bool = True
