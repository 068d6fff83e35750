"""Whose tickets lie on the queues. Pure: what was published and how long the queues are in, who may publish out.

A queue is first in, first out, and its tail is what we put there last. So its length alone says how many of each
tenant's tickets still lie on it, as far as we published them; and no tenant gets more than a window of them. What is
over that waits in the ledger, so a flood is never longer than the window for those who come after it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from schemas.envelope import Stub
from schemas.ticket import Priority

LEAST = 200
UNKNOWN = 1000
MOST = 50_000
"""Tickets in a window at least, while nobody knows how fast they are worked off, and at most."""


def window_of(per_s: float | None, seconds: float) -> int:
    """Tickets that are worked off in so many seconds, within limits."""
    return UNKNOWN if per_s is None else int(min(MOST, max(LEAST, per_s * seconds)))


class Shares:
    """See the module.

    Args:
        weights: how much larger than others' a tenant's window is.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._runs: dict[Priority, deque[tuple[str, int]]] = {priority: deque() for priority in Priority}
        self._lying: dict[Priority, Counter[str]] = {priority: Counter() for priority in Priority}

    def drained(self, lengths: Mapping[Priority, int]) -> None:
        """So many tickets lie on each queue now, whoever put them there."""
        for priority, length in lengths.items():
            runs, lying = self._runs[priority], self._lying[priority]
            gone = lying.total() - length
            while gone > 0:
                tenant, count = runs.popleft()
                taken = min(gone, count)
                lying[tenant] -= taken
                gone -= taken
                if count > taken:
                    runs.appendleft((tenant, count - taken))

    def published(self, stubs: Sequence[Stub]) -> None:
        """These were put on their queues, in this order."""
        for stub in stubs:
            runs = self._runs[stub.priority]
            count = runs.pop()[1] if runs and runs[-1][0] == stub.tenant else 0
            runs.append((stub.tenant, count + 1))
            self._lying[stub.priority][stub.tenant] += 1

    def room(self, priority: Priority, tenant: str, window: int) -> int:
        """How many more of a tenant's tickets may lie there."""
        return max(0, int(window * self._weights.get(tenant, 1.0)) - self._lying[priority][tenant])

    def allowed(self, stubs: Sequence[Stub], window: int) -> list[Stub]:
        """Those of the tickets that may be published now, in their order."""
        room: dict[tuple[Priority, str], int] = {}
        found: list[Stub] = []
        for stub in stubs:
            key = stub.priority, stub.tenant
            left = room.get(key)
            if left is None:
                left = self.room(stub.priority, stub.tenant, window)
            if left > 0:
                found.append(stub)
            room[key] = left - 1
        return found

    def turn(self, waiting: Mapping[str, Sequence[Stub]]) -> list[Stub]:
        """Tickets of several tenants in one line: each in turn, as many at a time as its weight says."""
        least = min((self._weights.get(tenant, 1.0) for tenant in waiting), default=1.0)
        line: list[tuple[float, int, Stub]] = []
        for place, (tenant, stubs) in enumerate(sorted(waiting.items())):
            step = least / self._weights.get(tenant, 1.0)
            line += [((number + 1) * step, place, stub) for number, stub in enumerate(stubs)]
        line.sort(key=lambda each: each[:2])
        return [stub for _, _, stub in line]
