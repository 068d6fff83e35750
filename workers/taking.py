"""What is taken off the queues: how many, and from which. Belongs to the consumer thread."""

from __future__ import annotations

from collections.abc import Callable

from schemas.queues import QUEUES
from workers.policy.aging import Aging
from workers.policy.rate import Allowance
from workers.ports import Clock, Delivery, Orders, Transport


class Taking:
    """Asks a transport for tickets, in the order and at the rate that are wanted.

    Args:
        patience_s: how long less urgent tickets are passed over for more urgent ones.
        orders: what operators want now.
    """

    def __init__(self, patience_s: float, orders: Callable[[], Orders], clock: Clock) -> None:
        now_s = clock.monotonic_s()
        self._orders = orders
        self._clock = clock
        self._aging = Aging(QUEUES, patience_s, now_s)
        self._allowance = Allowance(now_s)
        self._credit = 0

    def begin(self) -> None:
        """A new transport: it knows of no credit yet."""
        self._credit = 0

    def allow(self, transport: Transport, most: int) -> None:
        """Has a broker that pushes send about so many a queue."""
        if most > self._credit or 2 * most < self._credit:
            self._credit = most
            transport.credit(most)

    def allowed(self, want: int) -> int:
        """How many of so many may be taken now."""
        per_s = self._orders().per_s
        return min(want, self._allowance.left(per_s, self._clock.monotonic_s())) if per_s else want

    def take(self, transport: Transport, want: int) -> list[Delivery]:
        """The most urgent, and one of each queue that was passed over for too long."""
        now_s = self._clock.monotonic_s()
        taken: list[Delivery] = []
        due = self._aging.due(now_s)
        if due:
            taken += transport.reserve(want, QUEUES[0])
        for queue in due:
            if len(taken) < want:
                taken += transport.reserve(1, queue)
                self._aging.served(queue, now_s)
        if len(taken) < want:
            taken += transport.reserve(want - len(taken))
        for queue in {each.queue for each in taken}:
            self._aging.served(queue, now_s)
        self._allowance.use(len(taken))
        return taken
