"""What only the RabbitMQ transport promises."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest
from kombu import Connection

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


def _ready(rabbitmq: VirtualHost, queue: str) -> int:
    with Connection(rabbitmq.url) as connection, connection.channel() as channel:
        wait_until(lambda: channel.queue_declare(queue, passive=True).consumer_count)
        return channel.queue_declare(queue, passive=True).message_count
