"""Less urgent work that waits behind more urgent work is served now and then, so that it is never starved."""

from __future__ import annotations

from collections.abc import Sequence


class Aging:
    """Knows when each queue was served last.

    Args:
        queues: the most urgent first. The first one is never kept from the next free slot, and never ages itself.
        patience_s: how long a queue may be passed over, in seconds.
    """

    def __init__(self, queues: Sequence[str], patience_s: float, now_s: float) -> None:
        self._patience_s = patience_s
        self._served_s = dict.fromkeys(queues[1:], now_s)

    def due(self, now_s: float) -> list[str]:
        """Queues that get one ticket each right behind the most urgent ones, the longest passed over first."""
        overdue = [queue for queue, at_s in self._served_s.items() if now_s - at_s >= self._patience_s]
        return sorted(overdue, key=self._served_s.__getitem__)

    def served(self, queue: str, now_s: float) -> None:
        """A ticket of it was taken, or it was found empty."""
        if queue in self._served_s:
            self._served_s[queue] = now_s
