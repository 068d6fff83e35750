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


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What admission says of one ticket.

    Attributes:
        reasons: plain sentences for the person who asks why.
        scores: what each signal measured, by its name.
        retry_after_s: for a throttle: when to come back.
    """

    action: Action = Action.ACCEPT
    reasons: tuple[str, ...] = ()
    scores: dict[str, float] = {}
    retry_after_s: float | None = None
