"""What becomes of tickets that their workers were lost with."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.outcome import Dead


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
