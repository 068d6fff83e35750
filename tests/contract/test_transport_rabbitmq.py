"""What only the RabbitMQ transport promises."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator
from contextlib import closing

import pytest
from kombu import Connection

from producer.adapters.brokers import open_broker
from schemas.envelope import Stub
from schemas.queues import PRIORITY_QUEUES
from schemas.ticket import Priority
from tests.contract.post import Post, Taker, ids, stub
from tests.ground.brokers import VirtualHost
from tests.ground.waiting import wait_until

LOW = PRIORITY_QUEUES[Priority.LOW]
Takers = Callable[..., Taker]


@pytest.fixture
def taker(rabbitmq: VirtualHost) -> Generator[Takers]:
    made: list[Taker] = []

    def make(**options: float) -> Taker:
        made.append(Taker(rabbitmq.url, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_the_broker_sends_no_more_than_the_credit(rabbitmq: VirtualHost, taker: Takers) -> None:
    worker = taker(credit=4)
    Post(rabbitmq.url).send(*(stub(Priority.LOW) for _ in range(30)))
    held = worker.take(4)
    assert _ready(rabbitmq, LOW) == 26
    worker.transport.credit(10)
    more = worker.take(10)
    assert _ready(rabbitmq, LOW) == 16
    worker.transport.ack([*held, *more])
    assert len(worker.take(10)) == 10


def test_low_work_that_fills_its_credit_blocks_nobody(rabbitmq: VirtualHost, taker: Takers) -> None:
    worker = taker(credit=4)
    post = Post(rabbitmq.url)
    post.send(*(stub(Priority.LOW) for _ in range(30)))
    worker.take(4)
    post.send(stub(Priority.URGENT, "hurry"))
    assert ids(worker.take(1)) == ["hurry"]


def test_what_lies_in_the_buffers_goes_back_when_the_worker_leaves(rabbitmq: VirtualHost, taker: Takers) -> None:
    worker = taker()
    Post(rabbitmq.url).send(*(stub() for _ in range(20)))
    held = worker.take(5)
    worker.transport.ack(held[:2])
    worker.transport.close()  # type: ignore[attr-defined]
    assert len(taker().take(18)) == 18


def test_acknowledging_out_of_order_takes_nothing_else_along(rabbitmq: VirtualHost, taker: Takers) -> None:
    worker = taker()
    Post(rabbitmq.url).send(*(stub() for _ in range(10)))
    held = worker.take(10)
    worker.transport.ack([held[9], held[3]])
    worker.transport.ack([held[0], held[1], held[4]])
    worker.transport.release([held[2]])
    worker.transport.ack([held[5]])
    worker.heard()
    worker.die()
    again = taker().take(4)
    assert sorted(ids(again)) == sorted(ids([held[2], *held[6:9]]))


@pytest.mark.parametrize(
    "arguments", [{"x-queue-type": "quorum"}, {"x-max-priority": 10}], ids=["quorum", "priorities"]
)
def test_a_queue_of_another_kind_is_drained_as_it_is(
    rabbitmq: VirtualHost, taker: Takers, arguments: dict[str, object]
) -> None:
    with Connection(rabbitmq.url) as connection, connection.channel() as channel:
        channel.queue_declare(LOW, durable=True, auto_delete=False, arguments=arguments)
    with closing(open_broker(rabbitmq.url)) as broker:
        broker.publish([stub(Priority.LOW, ticket_id) for ticket_id in "abc"])
    first = taker(credit=4)
    assert ids(first.take(3)) == ["a", "b", "c"]
    first.die()
    second = taker(credit=4)
    held = second.take(3)
    assert ids(held) == ["a", "b", "c"]
    assert all(each.redelivered for each in held)
    second.transport.ack(held)
    second.heard()
    second.die()
    assert _ready_now(rabbitmq, LOW) == 0


def test_frames_read_with_others_in_one_piece_are_not_forgotten(rabbitmq: VirtualHost, taker: Takers) -> None:
    worker = taker(credit=50)
    worker.listen()
    Post(rabbitmq.url).send(*(stub() for _ in range(50)))
    worker.heard()  # waits for one frame, and finds those of 50 messages before it
    worker.until(lambda: worker.rings == 1)
    assert len(worker.transport.reserve(50)) == 50


def test_headers_that_differ_in_more_than_the_id_are_told_apart(rabbitmq: VirtualHost, taker: Takers) -> None:
    names = [str(uuid.uuid4()) for _ in range(3)]
    stubs = [
        Stub(id=names[0], delivery=1, priority=Priority.LOW, tenant="acme", job="reply"),
        Stub(id=names[1], delivery=1, priority=Priority.LOW, tenant="acme", job="reply"),
        Stub(id=names[2], delivery=2, priority=Priority.LOW, tenant=names[2], job="reply", conversation=names[2]),
    ]
    with closing(open_broker(rabbitmq.url)) as broker:
        broker.publish(stubs)
    assert [each.stub for each in taker().take(3)] == stubs


def _ready(rabbitmq: VirtualHost, queue: str) -> int:
    with Connection(rabbitmq.url) as connection, connection.channel() as channel:
        wait_until(lambda: channel.queue_declare(queue, passive=True).consumer_count)
    return _ready_now(rabbitmq, queue)


def _ready_now(rabbitmq: VirtualHost, queue: str) -> int:
    with Connection(rabbitmq.url) as connection, connection.channel() as channel:
        return channel.queue_declare(queue, passive=True).message_count
