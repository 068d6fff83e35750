"""The Redis transport: kombu's lists and messages, with leases of our own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import msgspec
from redis import ConnectionPool
from redis.exceptions import RedisError

from schemas.envelope import label_of_redis
from schemas.errors import BrokerUnavailable
from workers.ports import Delivery, Loop
from workers.transport.doorbell import Doorbell
from workers.transport.leases import Leased, Leases

STEPS = (3, 6, 9)
"""Kombu keeps messages sent with ``priority=`` in lists of their own beside the queue's, in these steps."""

SEPARATOR = "\x06\x16"


class RedisTransport:
    """Reserves by one Lua call over all lists; see leases.lua.

    Args:
        pool: connections to the server, with TLS, socket or Sentinel as kombu has set them up.
        queues: the most urgent first.
        lease_s: how long a message stays ours without renewal.
        prefix: kombu's ``global_keyprefix``.
        place: the broker's address without its password, for errors.
    """

    def __init__(
        self, pool: ConnectionPool, queues: Sequence[str], lease_s: float, loop: Loop, prefix: str = "", place: str = ""
    ) -> None:
        self._place = place
        self._prefix = prefix
        self._queue_of_list = {name: queue for queue in queues for name in lists_of(queue, prefix)}
        self._lists = list(self._queue_of_list)
        with self._translated():
            self._leases = Leases(pool, prefix, lease_s)
            self._doorbell = Doorbell(pool, self._lists, loop)

    def reserve(self, most: int, queue: str = "") -> list[Delivery]:
        """See Transport."""
        lists = lists_of(queue, self._prefix) if queue else self._lists
        with self._translated():
            return [self._delivery(each) for each in self._leases.reserve(lists, most)]

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See Transport."""
        with self._translated():
            self._leases.ack([each.token for each in deliveries])

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See Transport."""
        with self._translated():
            self._leases.release([each.token for each in deliveries])

    def move(self, deliveries: Sequence[Delivery], queue: str) -> None:
        """See Transport."""
        with self._translated():
            self._leases.move([each.token for each in deliveries], self._prefix + queue)

    def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """See Transport."""
        with self._translated():
            lost = [deliveries[at] for at in self._leases.renew([each.token for each in deliveries])]
            self._leases.restore()
            return lost

    def credit(self, most: int) -> None:
        """Nothing is ever sent here unasked."""

    def wait(self, ready: Callable[[], None]) -> None:
        """See Transport."""
        with self._translated():
            self._doorbell.arm(ready)

    def close(self) -> None:
        """Leaves the loop. What is leased stays so until it is acknowledged or runs out."""
        self._doorbell.close()
        self._leases.close()

    def _delivery(self, leased: Leased) -> Delivery:
        label = label_of_redis(leased.message)
        headers, body = (b"", b"") if label.stub else parts(leased.message)
        return Delivery(
            stub=label.stub,
            token=leased.token,
            queue=self._queue_of_list[leased.list],
            redelivered=label.redelivered,
            raw=label.raw,
            newer=label.newer,
            headers=headers,
            body=body,
        )

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except (RedisError, OSError) as error:
            why = " ".join(str(error).split())
            raise BrokerUnavailable(f"broker {self._place}", why, "Run `ticketmill doctor`") from error


def lists_of(queue: str, prefix: str = "") -> list[str]:
    """The keys that kombu keeps a queue's messages under, in the order it serves them."""
    return [prefix + queue, *(f"{prefix}{queue}{SEPARATOR}{step}" for step in STEPS)]


class _Parts(msgspec.Struct):
    headers: msgspec.Raw = msgspec.Raw(b"{}")
    body: msgspec.Raw = msgspec.Raw(b'""')


def parts(message: bytes) -> tuple[bytes, bytes]:
    """Headers and body as they came; for what is no Celery message, nothing and the whole of it."""
    try:
        found = msgspec.json.decode(message, type=_Parts)
    except (msgspec.DecodeError, UnicodeError):
        return b"", message
    return bytes(found.headers), bytes(found.body)
