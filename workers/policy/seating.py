"""Who sits with whom: suspects of a failed batch apart from all others, and in ever smaller parts.

Nobody enters whose keys and values are not expected to find room beside those of all who sit already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

W = TypeVar("W")

SPREADS = 3
"""How many times the spread of all lengths together is kept free for those that turn out longer."""


class Seat(msgspec.Struct, Generic[W], frozen=True, kw_only=True, eq=False):
    """A ticket on its way into a slot.

    Attributes:
        rank: 0 for urgent.
        tokens: of the KV cache, that it is expected to take.
        spread: how far from that it may usually be.
    """

    work: W
    rank: int
    tokens: float = 0.0
    spread: float = 0.0


class Seating(Generic[W]):
    """Decides at each boundary who enters. Whoever came may enter at once if there is room and nobody is suspected."""

    def __init__(self) -> None:
        self._fresh: list[Seat[W]] = []
        self._suspects: list[Sequence[Seat[W]]] = []
        self._apart = False

    @property
    def waiting(self) -> bool:
        """Somebody has not entered yet."""
        return bool(self._fresh or self._suspects)

    def arrive(self, seats: Sequence[Seat[W]]) -> None:
        """Tickets for the next boundary."""
        self._fresh.extend(seats)

    def split(self, group: Sequence[Seat[W]]) -> None:
        """A batch of several that failed as a whole: its halves run apart, before anything else of their urgency."""
        middle = len(group) // 2
        self._suspects[:0] = [group[:middle], group[middle:]]

    def enter(
        self, running: int, seated: Sequence[Seat[W]] = (), kv_tokens: int | None = None, most: int = 1_000_000
    ) -> Sequence[Seat[W]]:
        """Who enters now, given how many slots are in use.

        One that finds no room waits and is overtaken by none that is less urgent or came later. Into an empty engine
        one may always enter: whether a ticket fits at all is not decided here.

        Args:
            seated: who is in those slots.
            kv_tokens: tokens that the KV cache has room for, all rows together; None if it does not say.
            most: slots that may be in use.
        """
        if running and (self._apart or self._suspects):
            return []  # suspects enter an empty engine and are joined by nobody
        self._apart = False
        if self._suspects and not self._fresh_first():
            self._apart = True
            fitting = min(_fitting(self._suspects[0], seated, kv_tokens), max(1, most))
            group, left = self._suspects[0][:fitting], self._suspects[0][fitting:]
            self._suspects[:1] = [left] if left else []
            return group
        self._fresh.sort(key=lambda seat: seat.rank)
        fitting = min(_fitting(self._fresh, seated, kv_tokens), max(0, most - running))
        entering, self._fresh = self._fresh[:fitting], self._fresh[fitting:]
        return entering

    def forget(self, gone: Sequence[Seat[W]]) -> None:
        """These do not enter any more."""
        out = {id(seat) for seat in gone}
        self._fresh = [seat for seat in self._fresh if id(seat) not in out]
        kept = [[seat for seat in group if id(seat) not in out] for group in self._suspects]
        self._suspects = [group for group in kept if group]

    def seats(self) -> list[Seat[W]]:
        """All who have not entered yet."""
        return [*self._fresh, *(seat for group in self._suspects for seat in group)]

    def _fresh_first(self) -> bool:
        if not self._fresh:
            return False
        return min(seat.rank for seat in self._fresh) < min(seat.rank for seat in self._suspects[0])


def _fitting(seats: Sequence[Seat[W]], seated: Sequence[Seat[W]], kv_tokens: int | None) -> int:
    """How many of them, from the first on, find room beside those who are seated.

    Lengths that do not depend on one another make up for each other: of all of them together, the spread grows as the
    root of their number. So many more fit than if each were taken for as long as it might be.
    """
    if kv_tokens is None:
        return len(seats)
    tokens = sum(seat.tokens for seat in seated)
    variance = sum(seat.spread**2 for seat in seated)
    fitting = 0
    for seat in seats:
        tokens += seat.tokens
        variance += seat.spread**2
        if tokens + SPREADS * math.sqrt(variance) > kv_tokens and (seated or fitting):
            break
        fitting += 1
    return fitting
