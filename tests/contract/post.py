"""A broker as a producer and a stock consumer see it, for the suites of the transports."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis as redis_client
from celery import Celery
from kombu import Connection, Consumer, Producer
from kombu.asynchronous import Hub

from schemas.envelope import Stub, envelope, redis_message
from schemas.queues import QUEUES
from schemas.ticket import Priority
from workers.ports import Delivery, Transport
from workers.transport import open_transport
from workers.transport.redis import RedisTransport

_numbers = itertools.count(1)


def stub(priority: Priority = Priority.NORMAL, ticket_id: str = "", delivery: int = 1) -> Stub:
    """An admitted ticket."""
    name = ticket_id or f"ticket-{next(_numbers):05d}"
    return Stub(id=name, delivery=delivery, priority=priority, tenant="acme", job="reply")


class Post:
    """Puts messages on a broker, as our relay and as stock programs do."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_redis = url.startswith("redis")

    def send(self, *stubs: Stub) -> None:
        """Admitted tickets in our own envelopes."""
        if self.is_redis:
            with redis_client.Redis.from_url(self.url) as client:
                for each in stubs:
                    sealed = envelope(each)
                    client.lpush(sealed.queue, redis_message(sealed))
            return
        for each in stubs:
            sealed = envelope(each)
            self.publish(sealed.body, sealed.queue, sealed.headers, **sealed.properties)

    def publish(self, body: bytes | str, queue: str, headers: dict[str, Any], **properties: Any) -> None:
        """Any message, by kombu."""
        options = {} if self.is_redis else {"confirm_publish": True}
        with Connection(self.url, transport_options=options) as connection, connection.channel() as channel:
            channel.queue_declare(queue, durable=True, auto_delete=False)
            Producer(channel).publish(
                body,
                exchange="",
                routing_key=queue,
                headers=headers,
                content_type="application/json",
                content_encoding="utf-8",
                **properties,
            )

    def send_task(self, queue: str, **options: Any) -> str:
        """A raw ticket by a stock Celery program; its task id."""
        with Celery(broker=self.url, set_as_current=False) as app:
            app.conf.task_queue_max_priority = None
            return app.send_task("ticketmill.ticket", kwargs={"body": "Where is it?"}, queue=queue, **options).id

    def stock_messages(self, queue: str) -> list[Any]:
        """What a stock kombu consumer finds on a queue, acknowledged."""
        found: list[Any] = []
        with Connection(self.url) as connection, connection.channel() as channel:

            def keep(message: Any) -> None:
                found.append(message)
                message.ack()

            channel.queue_declare(queue, durable=True, auto_delete=False)
            with Consumer(channel, queues=[_queue(queue)], on_message=keep, accept=["json"]):
                try:
                    while True:
                        connection.drain_events(timeout=0.5)
                except TimeoutError:
                    return found


class Taker:
    """A worker's end of a broker: a connection, a loop and a transport.

    ``die`` ends it as kill -9 would: the broker is told nothing.
    """

    def __init__(
        self,
        url: str,
        *,
        credit: int = 100,
        lease_s: float = 60.0,
        queues: Sequence[str] = QUEUES,
        transport_options: dict[str, Any] | None = None,
    ) -> None:
        self.connection = Connection(url, transport_options=transport_options)
        self.connection.ensure_connection(max_retries=50, interval_start=0.1, interval_step=0)
        self.hub = Hub()
        if not url.startswith("redis"):
            self.connection.transport.register_with_event_loop(self.connection.connection, self.hub)
        self.transport: Transport = open_transport(self.connection, queues, lease_s, self.hub)
        self.transport.credit(credit)
        self.rings = 0

    def take(self, most: int, seconds: float = 20.0) -> list[Delivery]:
        """Exactly ``most`` messages."""
        taken: list[Delivery] = []

        def enough() -> bool:
            self.transport.renew([])
            taken.extend(self.transport.reserve(most - len(taken)))
            return len(taken) == most

        self.until(enough, seconds)
        return taken

    def listen(self) -> None:
        """Waits for work."""
        self.transport.wait(self._ring)

    def until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        """Runs the loop until it is true."""
        self.hub.timer.call_repeatedly(0.02, lambda: None)
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "not true in time"
            self.hub.run_once()

    def heard(self) -> None:
        """Returns once the broker has read what was sent to it: RabbitMQ answers no acknowledgement, and one that still
        lies in a socket is lost with it."""
        if not isinstance(self.transport, RedisTransport):
            self.connection.channel().close()

    def die(self) -> None:
        """Its connections are gone from one moment to the next."""
        if isinstance(self.transport, RedisTransport):
            self.transport.close()
        self.connection.collect(socket_timeout=0.1)

    def end(self) -> None:
        """Cleans up after a test, whatever became of the broker."""
        with contextlib.suppress(*self.connection.connection_errors):
            self.hub.close()
        self.hub.close()  # the first time ends at the first thing left to do that a dead connection spoils
        self.die()

    def _ring(self) -> None:
        self.rings += 1


def ids(deliveries: Sequence[Delivery]) -> list[str]:
    """Of the tickets."""
    return [each.stub.id if each.stub else "" for each in deliveries]


def _queue(name: str) -> Any:
    from kombu import Queue

    return Queue(name, durable=True, auto_delete=False)
