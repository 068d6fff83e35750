"""Hears every task event of a run, as Flower would, and counts them.

It keeps the bytes while the run lasts and reads them afterwards: a listener that decodes as it goes would take the
worker's processor time, and slow down most whoever says most.
"""

from __future__ import annotations

import base64
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What was heard of one run.

    Attributes:
        kinds: how many distinct tickets each kind of task event came for.
        seconds: from the first ticket received to the last one succeeded, by the worker's own clock.
    """

    kinds: dict[str, int]
    seconds: float

    @property
    def succeeded(self) -> int:
        """Distinct tickets that succeeded."""
        return self.kinds.get("task-succeeded", 0)


class Listener(Protocol):
    """One listener a run; it must be there before the worker is."""

    def succeeded_so_far(self) -> int:
        """How many successes were heard, cheaply: to know when to stop waiting."""
        ...

    def close(self) -> Heard:
        """Stops listening and counts."""
        ...


def listener(url: str) -> Listener:
    """One for this broker."""
    return RedisListener(url) if url.startswith("redis") else RabbitListener(url)


class RedisListener:
    """Subscribed to the events' channels on a Redis."""

    def __init__(self, url: str) -> None:
        import redis

        self._bodies: list[bytes] = []
        self._successes = 0
        self._pubsub: Any = redis.Redis.from_url(url).pubsub(ignore_subscribe_messages=True)
        self._pubsub.psubscribe("*celeryev*")
        self._open = True
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def succeeded_so_far(self) -> int:
        return self._successes

    def close(self) -> Heard:
        self._open = False
        self._thread.join()
        self._pubsub.close()
        return _counted(self._bodies)

    def _listen(self) -> None:
        while self._open:
            message = self._pubsub.get_message(timeout=0.2)
            if message is not None and message["type"] == "pmessage":
                body = base64.b64decode(_redis_message.decode(message["data"]).body)
                self._bodies.append(body)
                self._successes += body.count(b"task-succeeded")


class _Redis(msgspec.Struct):
    body: str


_redis_message = msgspec.json.Decoder(_Redis)


class RabbitListener:
    """A queue of its own on RabbitMQ, which keeps the events until they are asked for."""

    def __init__(self, url: str) -> None:
        from kombu.connection import Connection

        self._bodies: list[bytes] = []
        self._successes = 0
        self._connection: Any = Connection(url)
        self._channel: Any = self._connection.channel()
        self._channel.exchange_declare("celeryev", "topic", durable=True, auto_delete=False)
        self._queue = self._channel.queue_declare(exclusive=True, auto_delete=True).queue
        self._channel.queue_bind(self._queue, "celeryev", "#")

    def succeeded_so_far(self) -> int:
        while message := self._channel.basic_get(self._queue, no_ack=True):
            body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
            self._bodies.append(body)
            self._successes += body.count(b"task-succeeded")
        return self._successes

    def close(self) -> Heard:
        self.succeeded_so_far()
        self._connection.close()
        return _counted(self._bodies)


def _counted(bodies: Iterable[bytes]) -> Heard:
    seen: set[tuple[str, str]] = set()
    first, last = float("inf"), 0.0
    for body in bodies:
        said: Any = msgspec.json.decode(body)
        for event in said if isinstance(said, list) else [said]:
            kind = event["type"]
            if not kind.startswith("task-"):
                continue
            seen.add((kind, event["uuid"]))
            if kind == "task-received":
                first = min(first, event["timestamp"])
            elif kind == "task-succeeded":
                last = max(last, event["timestamp"])
    return Heard(kinds=dict(Counter(kind for kind, _ in seen)), seconds=max(last - first, 0.0))
