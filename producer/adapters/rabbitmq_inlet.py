"""The inlet on RabbitMQ: a consumer with a credit, which acknowledges what was taken in."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from amqp.exceptions import AMQPError
from kombu.connection import Connection
from kombu.exceptions import OperationalError

from producer.adapters.connecting import connected
from producer.adapters.rabbitmq_broker import declare
from producer.ports import RawMessage
from schemas.errors import BrokerUnavailable
from schemas.queues import INLET

LINGER_S = 0.005
"""How long to wait for more once something is there: what was sent together is written together."""


class RabbitInlet:
    """See Inlet. For one thread at a time.

    Args:
        credit: messages that RabbitMQ may send before they are done: the most that one ``receive`` gives.
    """

    def __init__(self, url: str, credit: int) -> None:
        self._url = url
        self._credit = credit
        self._connection: Connection | None = None
        self._channel: Any = None
        self._buffer: deque[Any] = deque()

    def receive(self, most: int, wait_s: float) -> list[RawMessage]:
        """See Inlet."""
        with self._open() as wire:
            while len(self._buffer) < most:
                try:
                    wire.drain_events(timeout=LINGER_S if self._buffer else wait_s)
                except TimeoutError:
                    break
        return [_opened(self._buffer.popleft()) for _ in range(min(most, len(self._buffer)))]

    def done(self, messages: Sequence[RawMessage]) -> None:
        """See Inlet."""
        with self._open():
            if messages[-1].token.channel is self._channel:
                self._channel.basic_ack(messages[-1].token.delivery_tag, multiple=True)

    def close(self) -> None:
        """See Inlet. RabbitMQ gives what was not acknowledged to the next consumer."""
        self._buffer.clear()
        if self._connection is not None:
            self._connection.collect()
            self._connection = None

    @contextmanager
    def _open(self) -> Generator[Any]:
        place = f"broker {Connection(self._url).as_uri()}"
        try:
            if self._connection is None:
                self._connection = connected(self._url, connect_timeout=5, heartbeat=0)
                declare(self._connection, INLET)
                self._channel = self._connection.channel()
                self._channel.basic_qos(0, self._credit, False)
                self._channel.basic_consume(INLET, callback=self._buffer.append)
            yield self._connection.connection
        except (AMQPError, OperationalError, OSError) as error:
            self.close()
            why = " ".join(str(error).split()) or type(error).__name__
            raise BrokerUnavailable(place, why, "Run `ticketmill doctor`") from error


def _opened(message: Any) -> RawMessage:
    properties: dict[str, Any] = message.properties
    headers: dict[str, Any] = properties.get("application_headers") or {}
    body: bytes | str = message.body
    return RawMessage(
        headers=headers,
        body=body.encode() if isinstance(body, str) else bytes(body),
        content_type=properties.get("content_type", ""),
        content_encoding=properties.get("content_encoding", ""),
        compression=str(headers.get("compression") or ""),
        token=message,
    )
