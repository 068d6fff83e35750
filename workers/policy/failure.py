"""What becomes of a ticket whose stay in a slot ended without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from schemas.outcome import Dead, Retry

FINAL_ERRORS = frozenset({"context_overflow"})
"""Errors that another try cannot mend."""

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0


def after_failure(error: str, why: str, tries: int, most: int, now: datetime, jitter: float) -> Retry | Dead:
    """Another try later, or none.

    Args:
        error: kind of the failure, as ``workers.ports.Failed`` names it.
        tries: times that the ticket was tried, this one included.
        most: tries it is given.
        jitter: chance in [0, 1): the delay is spread over its whole length, so that tickets do not come back together.
    """
    if error in FINAL_ERRORS:
        return Dead(f"{error}: {why}")
    if tries >= most:
        return Dead(f"{error}: {why} (tried {tries} times; mend the cause and queue it again)")
    longest = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (tries - 1))
    return Retry(now + timedelta(seconds=longest * (0.5 + jitter / 2)), f"{error}: {why}")


def worn_out(lost: int, most: int) -> Dead | None:
    """Dead, for a ticket that every worker which began it was lost with, the last one with this ticket alone."""
    if lost < most:
        return None
    return Dead(
        f"began {lost} times, the last time alone, and its worker ended each time without a word; "
        "look at the worker's log before you queue it again"
    )


def company(lost: int, most: int, slots: int) -> int:
    """How many may run together with a ticket that was lost before, itself included.

    Halved with every loss, and 1 before the last one that it is given: a poison that kills its worker stands alone
    before it is given up, and never takes a neighbour along.
    """
    return 1 if lost >= most - 1 else max(1, slots >> lost)


def together(suspects: Sequence[int], most: int, slots: int) -> int:
    """How many of the suspects, from the first on, may run together now.

    Args:
        suspects: how often each was lost, at least once.
    """
    size = 0
    room = slots
    for lost in suspects:
        room = min(room, company(lost, most, slots))
        if size >= room:
            break
        size += 1
    return size
