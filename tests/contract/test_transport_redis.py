"""What only the Redis transport promises."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from schemas.envelope import envelope, redis_message
from schemas.keys import LEASED, LEASES
from schemas.queues import PRIORITY_QUEUES, QUEUES
from schemas.ticket import Priority
from tests.contract.post import Post, Taker, ids, stub
from tests.ground.brokers import RedisServer
from workers.transport.redis import lists_of

NORMAL = PRIORITY_QUEUES[Priority.NORMAL]
Takers = Callable[..., Taker]


@pytest.fixture(params=["redis", "valkey"])
def server(request: pytest.FixtureRequest) -> RedisServer:
    return request.getfixturevalue(request.param)


@pytest.fixture
def client(server: RedisServer) -> Generator[Redis]:
    with Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def taker(server: RedisServer) -> Generator[Takers]:
    made: list[Taker] = []

    def make(**options: float) -> Taker:
        made.append(Taker(server.url, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_a_message_lies_in_its_list_or_under_a_lease_and_nowhere_else(
    server: RedisServer, client: Redis, taker: Takers
) -> None:
    Post(server.url).send(*(stub() for _ in range(50)))
    worker = taker()
    held = worker.take(20)
    assert (client.llen(NORMAL), client.hlen(LEASED), client.zcard(LEASES)) == (30, 20, 20)
    worker.transport.ack(held[:15])
    worker.transport.release(held[15:])
    assert (client.llen(NORMAL), client.hlen(LEASED), client.zcard(LEASES)) == (35, 0, 0)


def test_a_large_batch_is_one_call_too(client: Redis, taker: Takers) -> None:
    messages = [redis_message(envelope(stub())) for _ in range(12_000)]
    client.lpush(NORMAL, *messages)
    worker = taker()
    held = worker.transport.reserve(11_000)
    assert len(held) == client.zcard(LEASES) == 11_000
    assert worker.transport.renew(held) == []
    worker.transport.ack(held)
    assert (client.llen(NORMAL), client.zcard(LEASES)) == (1_000, 0)


def test_a_renewed_lease_outlives_its_period(server: RedisServer, taker: Takers) -> None:
    worker, other = taker(lease_s=1.0), taker(lease_s=1.0)
    Post(server.url).send(stub(), stub())
    held = worker.take(2)
    began = time.monotonic()

    def renewed_for_long() -> bool:
        assert worker.transport.renew(held[:1]) == []
        other.transport.renew([])
        return time.monotonic() - began > 2.5

    worker.until(renewed_for_long)
    assert ids(other.transport.reserve(2)) == ids(held[1:])
    assert worker.transport.renew(held) == held[1:]


def test_the_first_owner_of_a_lost_lease_cannot_touch_the_seconds(server: RedisServer, taker: Takers) -> None:
    late, prompt = taker(lease_s=0.05), taker(lease_s=60.0)
    Post(server.url).send(stub())
    held = late.take(1)
    owned = prompt.take(1)
    assert owned[0].redelivered
    late.transport.ack(held)
    late.transport.release(held)
    assert late.transport.renew(held) == held
    assert prompt.transport.renew(owned) == []


def test_a_restored_message_is_still_a_stock_consumers(server: RedisServer, taker: Takers) -> None:
    post = Post(server.url)
    task_id = post.send_task(NORMAL)
    taker(lease_s=0.05).take(1)
    other = taker()
    other.transport.release(other.take(1))
    (message,) = post.stock_messages(NORMAL)
    assert message.headers["id"] == task_id
    assert message.headers["redelivered"] is True
    assert message.payload[1] == {"body": "Where is it?"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"headers": {}, "body": ""}', b'{"headers": {"redelivered":true}, "body": ""}'),
        (b'{"headers":{"a":[]},"body":""}', b'{"headers":{"redelivered":true,"a":[]},"body":""}'),
        (b'{"headers":{"redelivered":true}}', b'{"headers":{"redelivered":true}}'),
        (b"no message at all \xff\x00 {", b"no message at all \xff\x00 {"),
    ],
)
def test_a_restored_message_is_marked_and_otherwise_untouched(
    client: Redis, taker: Takers, before: bytes, after: bytes
) -> None:
    client.lpush(NORMAL, before)
    taker(lease_s=0.05).take(1)
    other = taker()
    other.transport.release(other.take(1))
    assert client.lrange(NORMAL, 0, -1) == [after]


def test_garbage_keeps_its_bytes(client: Redis, taker: Takers) -> None:
    client.lpush(NORMAL, b"\xff\x00garbage", b'{"headers": {"a": 1}, "body": [1,2]}', b"[]", b"")
    garbage = taker().take(4)
    assert [(each.stub, each.raw, each.headers, each.body) for each in garbage] == [
        (None, False, b"", b"\xff\x00garbage"),
        (None, False, b'{"a": 1}', b"[1,2]"),
        (None, False, b"", b"[]"),
        (None, False, b"", b""),
    ]


def test_waiting_asks_nothing(client: Redis, taker: Takers) -> None:
    worker = taker()
    worker.listen()
    before = client.info("stats")["total_commands_processed"]
    for _ in range(2):
        worker.hub.run_once()
    assert client.info("stats")["total_commands_processed"] == before + 1  # the question itself
    client.lpush(lists_of(QUEUES[-1])[-1], b"x")
    worker.until(lambda: worker.rings == 1)


def test_a_full_server_is_drained(server: RedisServer, client: Redis, taker: Takers) -> None:
    worker = taker()
    worker.listen()
    Post(server.url).send(*(stub() for _ in range(50)))
    worker.until(lambda: worker.rings == 1)
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", "1")
    with pytest.raises(ResponseError, match="maxmemory"):
        client.lpush("any", "x")
    held = worker.take(30)
    worker.listen()
    worker.transport.renew(held)
    worker.transport.release(held[20:])
    worker.transport.ack(held[:20])
    client.config_set("maxmemory", "0")
    assert client.llen(NORMAL) == 30


def test_a_server_that_forgets_scripts_is_told_them_again(server: RedisServer, client: Redis, taker: Takers) -> None:
    worker = taker()
    Post(server.url).send(stub(), stub())
    worker.take(1)
    client.script_flush()
    assert len(worker.take(1)) == 1


def test_a_key_of_a_wrong_type_loses_nothing(server: RedisServer, client: Redis, taker: Takers) -> None:
    worker = taker()
    client.set(PRIORITY_QUEUES[Priority.HIGH], "not a list")
    Post(server.url).send(stub(Priority.URGENT), stub(Priority.LOW))
    assert len(worker.take(2)) == 2
    Post(server.url).send(stub())
    client.delete(LEASED)
    client.set(LEASED, "not a hash")
    with contextlib.suppress(Exception):
        worker.transport.reserve(1)
    assert client.llen(NORMAL) == 1


def test_a_prefix_stands_before_every_key(server: RedisServer, client: Redis) -> None:
    worker = Taker(server.url, transport_options={"global_keyprefix": "shop:"})
    try:
        client.lpush("shop:" + NORMAL, redis_message(envelope(stub())))
        worker.transport.renew(worker.take(1))
        assert set(client.scan_iter()) == {b"shop:" + LEASES.encode(), b"shop:" + LEASED.encode()}
    finally:
        worker.end()
