"""Redis and Valkey as the producer sees them: kombu's lists, filled many messages at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kombu.connection import Connection
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from producer.adapters.connecting import connected
from producer.adapters.stencil import Stencil
from schemas.envelope import Stub, envelope, redis_message, stub_of_redis
from schemas.errors import BrokerUnavailable
from schemas.keys import LEASED
from schemas.queues import PRIORITY_QUEUES
from schemas.ticket import Priority

CHUNK = 1000
"""Messages read at once when a list is looked through: well under a megabyte."""

TIMEOUTS = {"socket_connect_timeout": 5.0, "socket_timeout": 30.0}


class RedisBroker:
    """See Broker. For one thread at a time; connects when it is first used."""

    def __init__(self, url: str) -> None:
        self._server = RedisServer(url)

    def publish(self, stubs: Sequence[Stub]) -> None:
        """See Broker."""
        messages: dict[str, list[bytes]] = {}
        for stub, message in zip(stubs, _messages(stubs), strict=True):
            messages.setdefault(PRIORITY_QUEUES[stub.priority], []).append(message)
        with self._server.client() as redis:
            pipeline = redis.pipeline(transaction=False)
            for queue, batch in messages.items():
                pipeline.lpush(self._server.key(queue), *batch)
            pipeline.execute()

    def lengths(self) -> Mapping[Priority, int]:
        """See Broker."""
        with self._server.client() as redis:
            return self._lengths(redis)

    def held(self) -> Mapping[Priority, int]:
        """See Broker."""
        with self._server.client() as redis:
            queued = self._lengths(redis)
            leased = Counter(stub.priority for stub in self._leased(redis))
        return {priority: count + leased[priority] for priority, count in queued.items()}

    def _lengths(self, redis: Redis) -> dict[Priority, int]:
        pipeline = redis.pipeline(transaction=False)
        for queue in PRIORITY_QUEUES.values():
            pipeline.llen(self._server.key(queue))
        return dict(zip(PRIORITY_QUEUES, pipeline.execute(), strict=True))

    def lost(self, suspects: Sequence[Stub]) -> list[Stub]:
        """See Broker. One that is moved while we look may be reported lost: that is rare, and harmless."""
        missing = {(stub.id, stub.delivery): stub for stub in suspects}
        with self._server.client() as redis:
            for priority in {stub.priority for stub in suspects}:
                sought = {key for key, stub in missing.items() if stub.priority is priority}
                for stub in self._queued(redis, priority):
                    if (stub.id, stub.delivery) in sought:
                        sought.remove((stub.id, stub.delivery))
                        del missing[stub.id, stub.delivery]
                        if not sought:
                            break
            if missing:
                for stub in self._leased(redis):
                    missing.pop((stub.id, stub.delivery), None)
        return list(missing.values())

    def close(self) -> None:
        """See Broker."""
        self._server.close()

    def _queued(self, redis: Redis, priority: Priority) -> Iterator[Stub]:
        # From the left, where new ones are pushed: what that moves is seen twice rather than missed.
        key = self._server.key(PRIORITY_QUEUES[priority])
        start = 0
        while messages := redis.lrange(key, start, start + CHUNK - 1):
            yield from _stubs(messages)
            start += CHUNK

    def _leased(self, redis: Redis) -> Iterator[Stub]:
        entries = redis.hscan_iter(self._server.key(LEASED), count=CHUNK)
        yield from _stubs(value.partition(b"\0")[2] for _, value in entries)


class RedisServer:
    """A client for the server at a broker's URL, made as Celery makes its own; its errors in our words."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._channel: Any = None

    @contextmanager
    def client(self) -> Generator[Redis]:
        """Raises BrokerUnavailable for whatever goes wrong with the server inside."""
        try:
            if self._channel is None:
                self._channel = connected(self._url, transport_options=TIMEOUTS).channel()
            yield Redis(connection_pool=self._channel.pool)
        except (RedisError, OperationalError, OSError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise BrokerUnavailable(f"broker {self.place}", why, "Run `ticketmill doctor`") from error

    def key(self, name: str) -> str:
        """The name of a list or key in this server, once it is connected."""
        return f"{self._channel.global_keyprefix}{name}"

    @property
    def place(self) -> str:
        """Its URL without the password."""
        return Connection(self._url).as_uri()

    def close(self) -> None:
        """Lets go of every connection; the next use makes new ones."""
        if self._channel is not None:
            self._channel.connection.client.release()
            self._channel = None


_messages = Stencil(lambda stub: redis_message(envelope(stub)))


def _stubs(messages: Any) -> Iterator[Stub]:
    return (stub for stub in map(stub_of_redis, messages) if stub is not None)
