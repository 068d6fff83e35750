"""The RabbitMQ transport: one queue, channel and credit per priority, so that prefetched low work blocks nobody.

The broker pushes; what it pushed lies in one buffer a queue, and a reserve takes from the buffers in order. A message
is leased to us for as long as its channel lives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import msgspec
from amqp.exceptions import NotFound
from kombu.connection import Connection

from schemas.errors import BrokerUnavailable
from schemas.queues import ARGUMENTS
from workers.ports import Delivery, Loop
from workers.transport.wire import Parcel, Wire, label_of, message_of

_transports = count(1)


class RabbitTransport:
    """See Transport.

    Args:
        connection: open, and read by the loop as kombu's own ``register_with_event_loop`` has it read.
        queues: the most urgent first; declared here if they are not there yet.
    """

    def __init__(self, connection: Connection, queues: Sequence[str], loop: Loop) -> None:
        self._connection = connection
        self._loop = loop
        self._credit = 0
        self._ready: Callable[[], None] | None = None
        self._name = f"{next(_transports)}."
        self._out: dict[str, tuple[_Line, Parcel]] = {}
        with self._translated():
            self._wire = Wire(connection.connection, loop)
            for queue in queues:
                declare(connection, queue)
            self._lines = [_Line(connection.channel(), queue, self._wire, self._on_message) for queue in queues]

    def reserve(self, most: int, queue: str = "") -> list[Delivery]:
        """See Transport."""
        with self._translated():
            self._wire.read()  # bounded by the credit: the broker sends no more until something is acknowledged
        taken: list[Delivery] = []
        for line in self._lines:
            while line.buffer and len(taken) < most and queue in ("", line.queue):
                taken.append(self._delivery(line, line.buffer.popleft()))
        return taken

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See Transport."""
        with self._translated():
            for line, parcels in self._held(deliveries).items():
                line.ack({parcel.tag for parcel in parcels})

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See Transport."""
        with self._translated():
            for line, parcels in self._held(deliveries).items():
                line.give_back([parcel.tag for parcel in parcels])

    def move(self, deliveries: Sequence[Delivery], queue: str) -> None:
        """See Transport."""
        with self._translated():
            declare(self._connection, queue)
            channel = self._connection.channel()
            for line, parcels in self._held(deliveries).items():
                for parcel in parcels:
                    channel.basic_publish_confirm(message_of(parcel), exchange="", routing_key=queue)
                line.ack({parcel.tag for parcel in parcels})
            channel.close()

    def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See Transport."""
        return [each for each in deliveries if each.token not in self._out]

    def credit(self, most: int) -> None:
        """See Transport."""
        if most == self._credit:
            return
        self._credit = most
        with self._translated():
            for line in self._lines:
                line.consume(most)

    def wait(self, ready: Callable[[], None]) -> None:
        """See Transport."""
        self._ready = ready
        if any(line.buffer for line in self._lines):
            self._ring()

    def close(self) -> None:
        """Gives everything back that is not acknowledged."""
        self._ready = None
        self._out.clear()
        with self._translated():
            for line in self._lines:
                line.channel.close()

    def _on_message(self) -> None:
        if self._ready is not None:
            self._ring()

    def _ring(self) -> None:
        ready, self._ready = self._ready, None
        if ready is not None:
            self._loop.call_soon(ready)

    def _delivery(self, line: _Line, parcel: Parcel) -> Delivery:
        token = f"{self._name}{line.channel.channel_id}.{parcel.tag}"
        self._out[token] = line, parcel
        label = label_of(parcel)
        headers = b""
        if label.stub is None:
            headers = msgspec.json.encode(message_of(parcel).properties.get("application_headers", {}), enc_hook=repr)
        return Delivery(
            stub=label.stub,
            token=token,
            queue=line.queue,
            redelivered=parcel.redelivered or label.redelivered,
            raw=label.raw,
            newer=label.newer,
            headers=headers,
            body=b"" if label.stub else parcel.body,
        )

    def _held(self, deliveries: Sequence[Delivery]) -> dict[_Line, list[Parcel]]:
        held: dict[_Line, list[Parcel]] = {}
        for each in deliveries:
            found = self._out.pop(each.token, None)
            if found is not None:
                held.setdefault(found[0], []).append(found[1])
        return held

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except (*self._connection.connection_errors, *self._connection.channel_errors) as error:
            why = " ".join(str(error).split())
            raise BrokerUnavailable(f"broker {self._connection.as_uri()}", why, "Run `ticketmill doctor`") from error


def declare(connection: Connection, queue: str) -> None:
    """Makes sure that a queue is there. One that is, quorum or with priorities of its own, is drained as it is."""
    probe: Any = connection.channel()
    try:
        probe.queue_declare(queue, passive=True)
        probe.close()
    except NotFound:  # which closes the channel
        channel: Any = connection.channel()
        channel.queue_declare(queue, durable=True, auto_delete=False, arguments=dict(ARGUMENTS))
        channel.close()


class _Line:
    """One queue's channel with what it brought."""

    def __init__(self, channel: Any, queue: str, wire: Wire, on_message: Callable[[], None]) -> None:
        self.channel = channel
        self.queue = queue
        self.buffer: deque[Parcel] = deque()
        self._unacknowledged: dict[int, None] = {}  # delivery tags in the order the broker gave them
        self._on_message = on_message
        self._consumer = ""
        wire.hear(channel.channel_id, self._receive)

    def consume(self, credit: int) -> None:
        # Credit belongs to the consumer and cannot be changed on one: RabbitMQ 4 has no other kind.
        if self._consumer:
            self.channel.basic_cancel(self._consumer)
        self.channel.basic_qos(0, credit, False)
        self._consumer = self.channel.basic_consume(self.queue)

    def ack(self, tags: set[int]) -> None:
        upto = 0
        for tag in self._unacknowledged:
            if tag not in tags:
                break
            upto = tag
        if upto:
            self.channel.basic_ack(upto, multiple=True)
        for tag in tags:
            if tag > upto:
                self.channel.basic_ack(tag)
            del self._unacknowledged[tag]

    def give_back(self, tags: Sequence[int]) -> None:
        for tag in tags:
            self.channel.basic_reject(tag, requeue=True)
            del self._unacknowledged[tag]

    def _receive(self, parcel: Parcel) -> None:
        self._unacknowledged[parcel.tag] = None
        self.buffer.append(parcel)
        self._on_message()
