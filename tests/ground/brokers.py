"""Fixtures: brokers. Each test gets an empty one; it may kill it, freeze it and start it again."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator
from pathlib import Path
from typing import Protocol

import pytest

from tests.ground.rabbitmq_server import RabbitServer, VirtualHost, rabbitmq_program
from tests.ground.redis_server import RedisServer, ValkeyServer, redis_program, valkey_program

_numbers = itertools.count(1)


class Broker(Protocol):
    """What a test may do with any of them."""

    url: str

    @property
    def pid(self) -> int: ...
    @property
    def alive(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


@pytest.fixture
def redis(tmp_path: Path) -> Generator[RedisServer]:
    """A Redis that keeps what it acknowledged, also when killed."""
    yield from _running(RedisServer(redis_program(), _place(tmp_path, "redis"), keeps=True))


@pytest.fixture
def forgetful_redis(tmp_path: Path) -> Generator[RedisServer]:
    """A Redis that keeps nothing on disk: killed, it comes back empty."""
    yield from _running(RedisServer(redis_program(), _place(tmp_path, "forgetful-redis"), keeps=False))


@pytest.fixture
def valkey(tmp_path: Path) -> Generator[ValkeyServer]:
    """The Valkey that embedded mode starts, keeping what it acknowledged."""
    yield from _running(ValkeyServer(valkey_program(), _place(tmp_path, "valkey"), keeps=True))


@pytest.fixture(scope="session")
def rabbitmq_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RabbitServer]:
    """This test worker's RabbitMQ; ask for ``rabbitmq`` instead."""
    server = RabbitServer(rabbitmq_program(), tmp_path_factory.mktemp("rabbitmq"))
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def rabbitmq(rabbitmq_server: RabbitServer) -> Generator[VirtualHost]:
    """A virtual host of its own on this test worker's RabbitMQ."""
    rabbitmq_server.bring_back()
    host = rabbitmq_server.add_vhost(f"test-{os.getpid()}-{next(_numbers)}")
    yield host
    host.remove()


@pytest.fixture(params=["redis", "valkey", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Every kind of broker in turn, each started only for the tests that get it."""
    return request.getfixturevalue(request.param)


def _place(tmp_path: Path, name: str) -> Path:
    place = tmp_path / name
    place.mkdir()
    return place


def _running(server: RedisServer) -> Generator[RedisServer]:
    try:
        server.start()
        yield server
    finally:
        server.close()
