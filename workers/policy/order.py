"""Who enters a free slot, and how many tickets to hold ready for the next ones."""

from __future__ import annotations

from collections.abc import Sequence

MOST_AHEAD = 3
"""Batches that are started ahead at most: one commit for several small batches costs far less than one for each."""


def enter_now(free: int, ready: Sequence[int], starting: Sequence[int]) -> int:
    """How many of the ready tickets may enter the free slots at once.

    A slot is kept for each ticket that is still being started and is more urgent than the ready one that would take
    it: an urgent ticket has the very next free slot.

    Args:
        free: slots with nobody in them.
        ready: ranks (0 is urgent) of tickets that could enter, the most urgent first.
        starting: ranks of those whose start is being committed, in the same order.
    """
    entering = kept = 0
    while entering + kept < free and entering < len(ready):
        if kept < len(starting) and starting[kept] < ready[entering]:
            kept += 1
        else:
            entering += 1
    return entering


def ahead(slots: int, slot_s: float, start_s: float) -> int:
    """How many tickets to start before a slot is free: as many as slots come free while one start is committed.

    With an engine that computes, a slot's turn lasts seconds and this is none: a ticket waits in its queue, where any
    worker may take it. With one that costs nothing it is the next `MOST_AHEAD` batches.

    Args:
        slot_s: how long a ticket stays in a slot; 0 if nobody knows yet.
        start_s: how long it takes to reserve and start one.
    """
    if slot_s <= 0:
        return 0
    return int(slots * min(MOST_AHEAD, start_s / slot_s))
