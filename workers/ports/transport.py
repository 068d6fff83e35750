"""What the drain needs of brokers, clocks and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import inf
from typing import Protocol

import msgspec

from schemas.envelope import Stub


class Delivery(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A message that this worker holds under a lease.

    Attributes:
        stub: what the message says of its ticket; None if it is no admitted ticket at all.
        token: the transport's own handle: what ack, release and renew name it by.
        redelivered: somebody had it before and did not acknowledge it.
        raw: no admitted ticket, but one that the inlet may admit.
        newer: written by a later version of Ticketmill, for a newer worker.
        headers, body: as they came; only where there is no stub.
    """

    stub: Stub | None
    token: str
    queue: str
    redelivered: bool = False
    raw: bool = False
    newer: bool = False
    headers: bytes = b""
    body: bytes = b""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator has set, by settings or by remote control.

    Attributes:
        time_limit_s: how long a ticket may stay in a slot.
        per_s: tickets that this worker takes a second at most; 0: as many as it can.
    """

    time_limit_s: float = inf
    per_s: float = 0.0


class Clock(Protocol):
    """Reads clocks, so that nothing else has to."""

    def utc_now(self) -> datetime:
        """The time as it is stored: aware, UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that only grow, for how long things took."""
        ...


class Loop(Protocol):
    """The part of the consumer thread's event loop that a transport needs."""

    def add_reader(self, fds: int, callback: Callable[..., object], *args: object) -> None:
        """Has ``callback`` called whenever there is something to read."""
        ...

    def remove_reader(self, fd: int) -> None:
        """No longer."""
        ...

    def call_soon(self, callback: Callable[..., object], *args: object) -> object:
        """Has ``callback`` called on the consumer thread; may be called from any thread."""
        ...


class Transport(Protocol):
    """Takes messages off the priority queues. Called by the consumer thread alone; no call blocks for work.

    Every method raises BrokerUnavailable when the connection is gone. A new transport on a new connection then says
    by ``renew`` which leases outlived it.
    """

    def reserve(self, most: int, queue: str = "") -> list[Delivery]:
        """Up to ``most`` messages, the most urgent first, leased in the same step that takes them.

        Args:
            queue: the one queue to take from; all of them if none is named.
        """
        ...

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Removes them for good, in one call. One whose lease was lost is left alone."""
        ...

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """Gives them back, unchanged, to the front of their queues."""
        ...

    def move(self, deliveries: Sequence[Delivery], queue: str) -> None:
        """Puts them, unchanged, at the end of another queue."""
        ...

    def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Makes their leases last a full period again; returns those that are lost to us.

        On the way it puts back what dead workers held, where the broker does not do so itself.
        """
        ...

    def credit(self, most: int) -> None:
        """How many a reserve may ask for from now on: a broker that pushes sends so many a queue, and none before."""
        ...

    def wait(self, ready: Callable[[], None]) -> None:
        """Has ``ready`` called, on the consumer thread, when there may be work. Never polls hot."""
        ...

    def close(self) -> None:
        """Takes and rings no more. What is held stays leased where leases outlive connections, or goes back."""
        ...
