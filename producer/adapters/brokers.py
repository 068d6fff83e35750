"""The message broker behind a URL."""

from __future__ import annotations

from producer.adapters.rabbitmq_broker import RabbitBroker
from producer.adapters.redis_broker import RedisBroker
from producer.ports import Broker
from schemas.errors import SettingRefused

REDIS_SCHEMES = ("redis", "rediss", "redis+socket")
RABBITMQ_SCHEMES = ("amqp", "amqps", "pyamqp")


def open_broker(url: str) -> Broker:
    """For one thread at a time; nothing is connected yet.

    Raises:
        SettingRefused: the URL is of no broker that we speak to.
    """
    if is_redis(url):
        return RedisBroker(url)
    return RabbitBroker(url)


def is_redis(url: str) -> bool:
    """Whether the URL is of Redis or Valkey; otherwise it is of RabbitMQ.

    Raises:
        SettingRefused: it is of neither.
    """
    scheme, mark, _ = url.partition("://")
    if not mark or scheme not in REDIS_SCHEMES + RABBITMQ_SCHEMES:
        raise SettingRefused("broker.url", "must begin with redis://, rediss://, redis+socket://, amqp:// or amqps://")
    return scheme in REDIS_SCHEMES
