"""What the drain may rely on, on every broker."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from schemas.errors import BrokerUnavailable
from schemas.queues import INLET, PRIORITY_QUEUES
from schemas.ticket import Priority
from tests.contract.post import Post, Taker, ids, stub
from tests.ground.brokers import Broker
from tests.ground.waiting import wait_until

URGENT, LOW = Priority.URGENT, Priority.LOW
Takers = Callable[..., Taker]


@pytest.fixture
def post(broker: Broker) -> Post:
    return Post(broker.url)


@pytest.fixture
def taker(broker: Broker) -> Generator[Takers]:
    """Makes takers on the broker under test."""
    made: list[Taker] = []

    def make(**options: float) -> Taker:
        made.append(Taker(broker.url, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_the_most_urgent_come_first_and_no_more_than_asked(post: Post, taker: Takers) -> None:
    sent = [stub(priority) for priority in reversed(Priority) for _ in range(3)]
    worker = taker()
    post.send(*sent)
    first = worker.take(5)
    rest = worker.take(10)
    ranks = [each.stub.priority.rank for each in [*first, *rest] if each.stub]
    assert ranks == sorted(ranks)
    assert sorted(ids(first) + ids(rest)) == sorted(each.id for each in sent)
    assert worker.transport.reserve(10) == []


def test_one_priority_is_served_in_the_order_it_came(post: Post, taker: Takers) -> None:
    sent = [stub() for _ in range(20)]
    worker = taker()
    post.send(*sent)
    assert ids(worker.take(7)) + ids(worker.take(13)) == [each.id for each in sent]


def test_an_urgent_one_comes_before_all_that_waits(post: Post, taker: Takers) -> None:
    worker = taker()
    post.send(*(stub(LOW) for _ in range(50)))
    worker.take(2)
    late = stub(URGENT)
    post.send(late)
    if not post.is_redis:  # pushed by the broker: wait until it is here
        wait_until(lambda: _buffered(worker, PRIORITY_QUEUES[URGENT]))
    assert ids(worker.take(2))[0] == late.id


def test_what_is_acknowledged_never_comes_back(post: Post, taker: Takers) -> None:
    first = taker(lease_s=0.2)
    post.send(*(stub() for _ in range(10)))
    held = first.take(10)
    first.transport.ack([held[0], held[1], held[2], held[5], held[9]])
    first.heard()
    first.die()
    again = taker().take(5)
    assert ids(again) == [ids(held)[at] for at in (3, 4, 6, 7, 8)]


def test_what_a_dead_worker_held_comes_back_marked(post: Post, taker: Takers) -> None:
    sent = [stub() for _ in range(4)]
    first = taker(lease_s=0.2)
    post.send(*sent)
    assert not any(each.redelivered for each in first.take(4))
    first.die()
    again = taker().take(4)
    assert ids(again) == [each.id for each in sent]
    assert all(each.redelivered for each in again)


def test_what_is_released_goes_to_the_front_unchanged(post: Post, taker: Takers) -> None:
    sent = [stub() for _ in range(6)]
    worker = taker()
    post.send(*sent)
    held = worker.take(4)
    worker.transport.release(held[1:])
    again = worker.take(5)
    assert sorted(ids(again)) == [each.id for each in sent[1:]]
    if post.is_redis:  # RabbitMQ has sent us the other two before it knew
        assert ids(again) == sorted(ids(again))


def test_released_and_moved_leases_are_over(post: Post, taker: Takers) -> None:
    worker = taker()
    post.send(*(stub() for _ in range(3)))
    held = worker.take(3)
    worker.transport.release(held[:1])
    worker.transport.move(held[1:2], INLET)
    assert worker.transport.renew(held) == held[:2]


def test_a_moved_message_is_found_by_a_stock_consumer(post: Post, taker: Takers) -> None:
    worker = taker()
    task_id = post.send_task(PRIORITY_QUEUES[LOW])
    (raw,) = worker.take(1)
    assert raw.stub is None
    assert raw.raw
    worker.transport.move([raw], INLET)
    (message,) = post.stock_messages(INLET)
    assert message.headers["id"] == task_id
    assert message.payload[1] == {"body": "Where is it?"}
    worker.die()
    assert taker().transport.reserve(1) == []


def test_a_stock_producers_priorities_are_drained_too(post: Post, taker: Takers) -> None:
    worker = taker()
    for priority in (0, 4, 9):
        post.send_task(PRIORITY_QUEUES[LOW], priority=priority)
    assert [each.queue for each in worker.take(3)] == [PRIORITY_QUEUES[LOW]] * 3


def test_a_message_of_a_later_version_is_told_from_a_stranger(post: Post, taker: Takers) -> None:
    worker = taker()
    queue = PRIORITY_QUEUES[LOW]
    post.publish(b"[[],{},{}]", queue, {"id": "x", "task": "ticketmill.ticket", "ticketmill": {"v": 99, "what": 1}})
    post.publish(b"[[],{},{}]", queue, {"id": "y", "task": "ticketmill.ticket", "ticketmill": "nonsense"})
    post.publish(b"hello", queue, {"who": "knows"})
    newer, *strange = worker.take(3)
    assert (newer.stub, newer.newer, newer.raw) == (None, True, False)
    assert [(each.stub, each.newer) for each in strange] == [(None, False)] * 2
    assert b"who" in strange[1].headers


def test_nothing_is_taken_by_waiting_and_every_waiter_is_rung(post: Post, taker: Takers) -> None:
    waiters = [taker(), taker()]
    for each in waiters:
        each.listen()
    waiters[0].hub.timer.call_repeatedly(0.02, lambda: None)
    for _ in range(5):
        waiters[0].hub.run_once()
    assert waiters[0].rings == 0
    post.send(stub(LOW), stub(LOW))
    for each in waiters if post.is_redis else waiters[:1]:  # RabbitMQ deals its messages out
        each.until(lambda each=each: each.rings == 1)
    taken = [delivery for each in waiters for delivery in _all(each)]
    assert len(taken) == 2


def test_whoever_waits_where_work_is_is_rung_at_once(post: Post, taker: Takers) -> None:
    post.send(stub(), stub())
    worker = taker()
    worker.listen()
    worker.until(lambda: worker.rings == 1)
    worker.take(1)
    worker.listen()
    worker.until(lambda: worker.rings == 2)


def test_the_broker_away_is_one_clear_line(broker: Broker, post: Post, taker: Takers) -> None:
    worker = taker()
    post.send(stub(), stub())
    held = worker.take(2)
    broker.kill()

    def work() -> None:
        for _ in range(100):  # a socket may take what it can no longer deliver
            worker.transport.ack(held[:1])
            worker.transport.reserve(1)

    with pytest.raises(BrokerUnavailable, match="ticketmill doctor") as raised:
        work()
    assert "guest:guest" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_work_goes_on_after_the_broker_came_back(broker: Broker, post: Post, taker: Takers) -> None:
    worker = taker()
    post.send(stub(), stub())
    held = worker.take(2)
    broker.kill()
    broker.start()
    again = taker()
    lost = again.transport.renew(held)
    assert len(lost) == (0 if post.is_redis else 2)
    if lost:
        held = again.take(2)
        assert all(each.redelivered for each in held)
    again.transport.ack(held)
    again.heard()
    again.die()
    assert taker().transport.reserve(2) == []


def _buffered(worker: Taker, queue: str) -> bool:
    taken = worker.transport.reserve(100)
    worker.transport.release(taken)
    return any(each.queue == queue for each in taken)


def _all(worker: Taker) -> list[object]:
    worker.hub.run_once()
    return list(worker.transport.reserve(10))
