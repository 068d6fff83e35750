"""Tickets that Celery's own consumer brought: from a queue named with ``-Q``, or one with priorities of RabbitMQ's own.

Celery takes, counts and acknowledges these messages; we only decide when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec

from schemas.envelope import label_of_headers
from workers.ports import Delivery, Loop, Transport

_numbers = count(1)


class _Message(NamedTuple):
    message: Any
    ack: Callable[[], object]


class HandedMessages:
    """A transport over messages that were handed to us.

    Args:
        publish: puts one message on another queue, and returns once the broker has it.
    """

    def __init__(self, loop: Loop, publish: Callable[[Any, str], None]) -> None:
        self._loop = loop
        self._publish = publish
        self._ready: Callable[[], None] | None = None
        self._here: deque[Delivery] = deque()
        self._out: dict[str, _Message] = {}

    def hand(self, message: Any, ack: Callable[[], object]) -> None:
        """Takes a kombu message; ``ack`` acknowledges it."""
        label = label_of_headers(message.headers)
        token = f"handed.{next(_numbers)}"
        body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
        self._out[token] = _Message(message, ack)
        self._here.append(
            Delivery(
                stub=label.stub,
                token=token,
                queue=str(message.delivery_info.get("routing_key") or ""),
                redelivered=bool(message.delivery_info.get("redelivered")) or label.redelivered,
                raw=label.raw,
                newer=label.newer,
                headers=b"" if label.stub else msgspec.json.encode(message.headers, enc_hook=repr),
                body=b"" if label.stub else body,
            )
        )
        ready, self._ready = self._ready, None
        if ready is not None:
            self._loop.call_soon(ready)

    def holds(self, delivery: Delivery) -> bool:
        """It came through here."""
        return delivery.token.startswith("handed.")

    def reserve(self, most: int, queue: str = "") -> list[Delivery]:
        """See Transport. They come in the order they were handed, and none of them from a queue of ours."""
        return [] if queue else [self._here.popleft() for _ in range(min(most, len(self._here)))]

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See Transport."""
        for each in self._taken(deliveries):
            each.ack()

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See Transport."""
        for each in self._taken(deliveries):
            each.message.requeue()

    def move(self, deliveries: Sequence[Delivery], queue: str) -> None:
        """See Transport."""
        for each in self._taken(deliveries):
            self._publish(each.message, queue)
            each.ack()

    def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See Transport."""
        return [each for each in deliveries if each.token not in self._out]

    def credit(self, most: int) -> None:
        """Celery's own prefetch count decides."""

    def wait(self, ready: Callable[[], None]) -> None:
        """See Transport."""
        self._ready = ready
        if self._here:
            self._loop.call_soon(ready)

    def close(self) -> None:
        """Celery gives back what it has not acknowledged."""
        self._ready = None

    def _taken(self, deliveries: Sequence[Delivery]) -> list[_Message]:
        return [self._out.pop(each.token) for each in deliveries if each.token in self._out]


class BothTransports:
    """The priority queues first, then what was handed to us."""

    def __init__(self, queues: Transport, handed: HandedMessages) -> None:
        self._queues = queues
        self._handed = handed

    def reserve(self, most: int, queue: str = "") -> list[Delivery]:
        """See Transport."""
        taken = self._queues.reserve(most, queue)
        return [*taken, *self._handed.reserve(most - len(taken), queue)]

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See Transport."""
        for transport, part in self._parts(deliveries):
            transport.ack(part)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See Transport."""
        for transport, part in self._parts(deliveries):
            transport.release(part)

    def move(self, deliveries: Sequence[Delivery], queue: str) -> None:
        """See Transport."""
        for transport, part in self._parts(deliveries):
            transport.move(part, queue)

    def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See Transport."""
        handed = [each for each in deliveries if self._handed.holds(each)]
        others = [each for each in deliveries if not self._handed.holds(each)]
        return [*self._queues.renew(others), *self._handed.renew(handed)]

    def credit(self, most: int) -> None:
        """See Transport."""
        self._queues.credit(most)

    def wait(self, ready: Callable[[], None]) -> None:
        """See Transport."""
        self._handed.wait(ready)
        self._queues.wait(ready)

    def close(self) -> None:
        """See Transport."""
        self._handed.close()
        self._queues.close()

    def _parts(self, deliveries: Sequence[Delivery]) -> list[tuple[Transport, list[Delivery]]]:
        handed = [each for each in deliveries if self._handed.holds(each)]
        if not handed:
            return [(self._queues, list(deliveries))]
        others = [each for each in deliveries if not self._handed.holds(each)]
        both: list[tuple[Transport, list[Delivery]]] = [(self._handed, handed), (self._queues, others)]
        return [(transport, part) for transport, part in both if part]
