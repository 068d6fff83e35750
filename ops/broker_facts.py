"""What can be asked of a broker without changing anything: which it is, what lies in its queues, what time it has."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
from kombu.connection import Connection
from kombu.exceptions import KombuError

from producer.adapters.brokers import is_redis
from schemas.errors import BrokerUnavailable
from schemas.keys import LEASES
from schemas.queues import INLET, QUEUES

ANSWER_WITHIN_S = 5


class BrokerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A broker as it is now.

    Attributes:
        kind: ``Redis``, ``Valkey`` or ``RabbitMQ``.
        queues: messages that wait, by queue; those that a worker holds are not among them.
        held: messages that workers hold under a lease; None where the broker does not tell.
        eviction: Redis' policy when its memory is full; empty elsewhere.
        keeps: whether what it acknowledged survives a restart.
        clock_ahead_s: its clock less ours, give or take the way there and back; None where it has none to show.
    """

    kind: str
    version: str
    queues: dict[str, int]
    held: int | None = None
    eviction: str = ""
    keeps: bool = True
    clock_ahead_s: float | None = None


def broker_facts(url: str) -> BrokerFacts:
    """Asks the broker at ``url``.

    Raises:
        SettingRefused: the URL is of no broker that we speak to.
        BrokerUnavailable: it cannot be reached, or refuses us.
    """
    redis = is_redis(url)
    with _connected(url, redis) as connection:
        return _of_redis(connection.default_channel.client) if redis else _of_rabbitmq(connection)


def depth(url: str, queue: str, *, empty: bool = False) -> int:
    """Messages that wait in one queue. ``empty`` takes them away afterwards: for benchmarks, on brokers of theirs."""
    with _connected(url, is_redis(url)) as connection:
        waiting = _depth(connection, queue)
        if empty and waiting:
            connection.default_channel.queue_purge(queue)
    return waiting


def _of_redis(client: Any) -> BrokerFacts:
    told: dict[str, Any] = client.info()
    asked = time.time()
    seconds, microseconds = client.time()
    now = (asked + time.time()) / 2
    return BrokerFacts(
        kind="Valkey" if "valkey_version" in told else "Redis",
        version=str(told.get("valkey_version", told.get("redis_version", ""))),
        queues={name: int(client.llen(name)) for name in (*QUEUES, INLET)},
        held=int(client.zcard(LEASES)),
        eviction=str(told.get("maxmemory_policy", "")),
        keeps=bool(told.get("aof_enabled")),
        clock_ahead_s=seconds + microseconds / 1e6 - now,
    )


def _of_rabbitmq(connection: Any) -> BrokerFacts:
    server: dict[str, Any] = connection.connection.server_properties
    return BrokerFacts(
        kind=str(server.get("product", "RabbitMQ")),
        version=str(server.get("version", "")),
        queues={name: _depth(connection, name) for name in (*QUEUES, INLET)},
    )


def _depth(connection: Any, queue: str) -> int:
    channel = connection.channel()
    try:
        return int(channel.queue_declare(queue, passive=True).message_count)
    except connection.channel_errors:
        return 0  # Not there yet: whoever uses it first declares it. The broker has closed the channel.
    finally:
        channel.close()


@contextmanager
def _connected(url: str, redis: bool) -> Generator[Any]:
    options = {"socket_connect_timeout": ANSWER_WITHIN_S, "socket_timeout": ANSWER_WITHIN_S} if redis else {}
    # Typed as Any: kombu has no complete types.
    connection: Any = Connection(url, connect_timeout=ANSWER_WITHIN_S, transport_options=options)
    try:
        connection.ensure_connection(max_retries=1)
        yield connection
    except (KombuError, *connection.connection_errors, *connection.channel_errors, OSError) as error:
        why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        fix = "Run `ticketmill up`, or set broker.url" if "+socket:" in url else "Check broker.url and that it runs"
        raise BrokerUnavailable(f"broker {connection.as_uri()}", why, fix) from None
    finally:
        connection.release()
