"""Who sits with whom: suspects of a failed batch apart from all others, and in ever smaller parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

W = TypeVar("W")


class Seat(msgspec.Struct, Generic[W], frozen=True, kw_only=True, eq=False):
    """A ticket on its way into a slot.

    Attributes:
        rank: 0 for urgent.
    """

    work: W
    rank: int


class Seating(Generic[W]):
    """Decides at each boundary who enters. Everyone who came may enter at once unless somebody is suspected."""

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

    def enter(self, running: int) -> Sequence[Seat[W]]:
        """Who enters now, given how many slots are in use."""
        if running and (self._apart or self._suspects):
            return []  # suspects enter an empty engine and are joined by nobody
        self._apart = False
        if self._suspects and not self._fresh_first():
            self._apart = True
            return self._suspects.pop(0)
        entering, self._fresh = self._fresh, []
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
