"""How many tickets may be taken now, where an operator has limited how many a second."""

from __future__ import annotations

BURST_S = 1.0
"""What was not used is kept for so long: whoever asks once a second still gets all of a second's."""


class Allowance:
    """Grows with time and shrinks with use."""

    def __init__(self, now_s: float) -> None:
        self._left = 0.0
        self._asked_s = now_s

    def left(self, per_s: float, now_s: float) -> int:
        """Tickets that may be taken now, at this rate."""
        grown = self._left + per_s * (now_s - self._asked_s)
        self._left = min(grown, max(1.0, per_s * BURST_S))
        self._asked_s = now_s
        return max(0, int(self._left))

    def use(self, count: int) -> None:
        """So many were taken."""
        self._left -= count
