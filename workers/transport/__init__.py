"""Takes messages off the broker: one transport a broker, chosen by the kind of connection Celery has opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kombu.connection import Connection

from workers.ports import Loop, Transport


def open_transport(connection: Connection, queues: Sequence[str], lease_s: float, loop: Loop) -> Transport:
    """The transport for an open kombu connection.

    Raises:
        BrokerUnavailable: the broker does not answer, or not as it should.
        ValueError: a broker that no transport is written for.
    """
    kind = connection.transport.driver_type
    if kind == "redis":
        from workers.transport.redis import RedisTransport

        channel: Any = connection.default_channel
        return RedisTransport(
            channel.pool, queues, lease_s, loop, prefix=channel.global_keyprefix, place=connection.as_uri()
        )
    if kind == "amqp":
        from workers.transport.rabbitmq import RabbitTransport

        return RabbitTransport(connection, queues, loop)
    raise ValueError(f"no transport for {kind} brokers; use redis:// or amqp://")
