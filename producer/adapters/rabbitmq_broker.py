"""RabbitMQ as the producer sees it: batches of persistent messages, each batch confirmed as a whole."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from amqp.exceptions import AMQPError, NotFound
from kombu.connection import Connection
from kombu.exceptions import OperationalError

from producer.adapters.amqp_frames import publish_frames
from producer.adapters.connecting import connected
from producer.adapters.stencil import Stencil
from schemas.envelope import Stub, envelope
from schemas.errors import BrokerUnavailable
from schemas.queues import ARGUMENTS, PRIORITY_QUEUES
from schemas.ticket import Priority

CONFIRM_WITHIN_S = 30.0
"""A broker that has not confirmed a batch by then is out of memory or disk, or gone."""

PATIENCE = 12
"""Looks at an empty queue that somebody consumes before a message is thought lost: a consumer may hold it still."""


class RabbitBroker:
    """See Broker. For one thread at a time; connects, and declares the queues, when it is first used."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._line: _Line | None = None
        self._looks: dict[Stub, int] = {}

    def publish(self, stubs: Sequence[Stub]) -> None:
        """See Broker."""
        fresh = self._line is None
        try:
            with self._open() as line:
                line.publish(stubs)
        except BrokerUnavailable:
            if fresh:
                raise
            # An idle connection may have died unseen: once more on a new one.
            with self._open() as line:
                line.publish(stubs)

    def lengths(self) -> Mapping[Priority, int]:
        """See Broker."""
        with self._open() as line:
            return {priority: line.state(priority).message_count for priority in PRIORITY_QUEUES}

    def held(self) -> Mapping[Priority, int]:
        """See Broker. RabbitMQ does not tell how many messages consumers hold, only when a queue has none ready."""
        with self._open() as line:
            return {priority: 0 for priority in PRIORITY_QUEUES if line.state(priority).message_count == 0}

    def lost(self, suspects: Sequence[Stub]) -> list[Stub]:
        """See Broker. Where a consumer may hold a message it is reported lost only when it has not moved for long."""
        lost: list[Stub] = []
        looks: dict[Stub, int] = {}
        with self._open() as line:
            for priority in {stub.priority for stub in suspects}:
                state = line.state(priority)
                if state.message_count:
                    continue
                for stub in suspects:
                    if stub.priority is priority:
                        looks[stub] = self._looks.get(stub, 0) + 1
                        if state.consumer_count == 0 or looks[stub] >= PATIENCE:
                            lost.append(stub)
        self._looks = looks
        return lost

    def close(self) -> None:
        """See Broker."""
        if self._line is not None:
            self._line.close()
            self._line = None

    @contextmanager
    def _open(self) -> Generator[_Line]:
        try:
            if self._line is None:
                self._line = _Line(self._url)
            yield self._line
        except (AMQPError, OperationalError, OSError, BrokerUnavailable) as error:
            self.close()
            if isinstance(error, BrokerUnavailable):
                raise
            why = " ".join(str(error).split()) or type(error).__name__
            raise BrokerUnavailable(_place(self._url), why, "Run `ticketmill doctor`") from error


def declare(connection: Connection, queue: str) -> None:
    """Makes sure that a queue is there. One that is, however it was made, is left as it is."""
    probe: Any = connection.channel()
    try:
        probe.queue_declare(queue, passive=True)
        probe.close()
    except NotFound:  # which closes the channel
        channel: Any = connection.channel()
        channel.queue_declare(queue, durable=True, auto_delete=False, arguments=ARGUMENTS)
        channel.close()


class _Line:
    """One channel in confirm mode."""

    def __init__(self, url: str) -> None:
        self._place = _place(url)
        options = {"write_timeout": CONFIRM_WITHIN_S}
        self._connection = connection = connected(url, connect_timeout=5, transport_options=options)
        for queue in PRIORITY_QUEUES.values():
            declare(connection, queue)
        self._channel: Any = connection.channel()
        self._wire: Any = connection.connection
        number: int = self._channel.channel_id
        self._frames = Stencil(lambda stub: publish_frames(number, envelope(stub)))
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._on_ack)
        self._channel.events["basic_nack"].add(self._on_nack)
        self._channel.events["basic_return"].add(self._on_return)
        self._sent = 0
        self._unconfirmed: set[int] = set()
        self._refusals: list[str] = []

    def publish(self, stubs: Sequence[Stub]) -> None:
        """Returns once every one is confirmed; raises BrokerUnavailable if one is not."""
        frames = self._frames(stubs)
        self._unconfirmed.update(range(self._sent + 1, self._sent + len(stubs) + 1))
        self._sent += len(stubs)
        self._wire.transport.write(b"".join(frames))
        while self._unconfirmed and not self._refusals:
            self._wire.drain_events(timeout=CONFIRM_WITHIN_S)
        if self._refusals:
            raise BrokerUnavailable(self._place, self._refusals[0], "Run `ticketmill doctor`")

    def state(self, priority: Priority) -> Any:
        """``message_count`` (ready ones) and ``consumer_count`` of a queue."""
        return self._channel.queue_declare(PRIORITY_QUEUES[priority], passive=True)

    def close(self) -> None:
        """Ends the connection, however broken it is."""
        self._connection.collect()

    def _on_ack(self, tag: int, multiple: bool) -> None:
        if multiple:
            self._unconfirmed = {number for number in self._unconfirmed if number > tag}
        else:
            self._unconfirmed.discard(tag)

    def _on_nack(self, _tag: int, _multiple: bool) -> None:
        self._refusals.append("refuses messages (is a queue of ours full, or its node down?)")

    def _on_return(self, _error: Exception, _exchange: str, queue: str, _message: object) -> None:
        self._refusals.append(f"has no queue {queue} any more")


def _place(url: str) -> str:
    return f"broker {Connection(url).as_uri()}"
