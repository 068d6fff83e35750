"""Waiting on Redis: no message that comes at an awkward moment is slept through."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator

import pytest
from kombu.asynchronous import Hub
from redis import ConnectionPool, Redis

from tests.ground.brokers import RedisServer
from workers.transport.doorbell import Doorbell

LIST = "ticketmill.normal"


@pytest.fixture
def client(redis: RedisServer) -> Generator[Redis]:
    with Redis.from_url(redis.url) as client:
        yield client


@pytest.fixture
def hub() -> Generator[Hub]:
    hub = Hub()
    yield hub
    hub.close()


class SlowRoad:
    """A way to the server on which the reply to a question for lists arrives in one piece with what comes next.

    Args:
        between: called once the server has replied, before anyone has read the reply.
    """

    def __init__(self, server: RedisServer, between: Callable[[], object]) -> None:
        self._server = socket.create_connection(("127.0.0.1", server.port))
        self._door = socket.create_server(("127.0.0.1", 0))
        self._between: Callable[[], object] | None = between
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._carry, daemon=True).start()

    def _carry(self) -> None:
        client, _ = self._door.accept()
        with client:
            while asked := client.recv(65536):
                self._server.sendall(asked)
                reply = self._server.recv(65536)
                if b"EXISTS" in asked and self._between is not None:
                    between, self._between = self._between, None
                    between()
                    reply += self._server.recv(65536)
                client.sendall(reply)

    def close(self) -> None:
        """Ends both ways."""
        self._door.close()
        self._server.close()


def test_it_rings_for_a_message_that_comes_with_the_reply_that_there_is_none(
    redis: RedisServer, client: Redis, hub: Hub
) -> None:
    road = SlowRoad(redis, lambda: client.lpush(LIST, "message"))
    url = redis.url.replace(f":{redis.port}", f":{road.port}")
    pool = ConnectionPool.from_url(url, protocol=3)
    bell = Doorbell(pool, [LIST], hub)
    rung = threading.Event()
    bell.arm(rung.set)
    hub.timer.call_repeatedly(0.02, lambda: None)
    for _ in range(100):
        if rung.is_set():
            break
        hub.run_once()
    assert rung.is_set()
    bell.close()
    road.close()
