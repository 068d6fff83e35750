"""The producer's side of the broker, on every broker."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest
from kombu.connection import Connection
from redis import Redis

from producer.adapters.brokers import open_broker
from producer.ports import Broker
from schemas.envelope import Stub, envelope, redis_message, stub_of_headers
from schemas.errors import BrokerUnavailable, SettingRefused
from schemas.keys import LEASED
from schemas.ledger import new_id
from schemas.queues import PRIORITY_QUEUES, QUEUES, TASK
from schemas.ticket import Priority
from tests.ground.brokers import Broker as Server
from tests.ground.ports import free_port
from tests.ground.rabbitmq_server import RabbitServer, VirtualHost
from tests.ground.redis_server import RedisServer

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def stub(priority: Priority = Priority.NORMAL, **fields: Any) -> Stub:
    return Stub(**{"id": new_id(NOW), "delivery": 1, "priority": priority, "tenant": "acme", "job": "reply"} | fields)


@pytest.fixture
def ours(broker: Server) -> Generator[Broker]:
    opened = open_broker(broker.url)
    yield opened
    opened.close()


def take(url: str, queue: str) -> list[Any]:
    """Every message of a queue, as any kombu consumer gets it, acknowledged."""
    taken: list[Any] = []
    with Connection(url) as connection, connection.channel() as channel:
        while (message := channel.basic_get(queue)) is not None:
            taken.append(message)
            channel.basic_ack(message.delivery_tag)
    return taken


def test_any_celery_worker_can_read_what_is_published(broker: Server, ours: Broker) -> None:
    sent = stub(conversation="会话 c", delivery=3)
    ours.publish([sent])
    with Connection(broker.url) as connection, connection.channel() as channel:
        raw = channel.basic_get(PRIORITY_QUEUES[Priority.NORMAL])
        message = raw if hasattr(raw, "decode") else channel.message_to_python(raw)
        args, kwargs, _ = message.decode() if hasattr(message, "decode") else ([], {}, {})
    assert (message.headers["task"], message.headers["id"], args, kwargs) == (TASK, sent.id, [sent.id], {})
    assert stub_of_headers(message.headers) == sent
    assert message.properties["correlation_id"] == sent.id
    assert message.content_type == "application/json"


def test_each_goes_to_its_own_queue_in_order(broker: Server, ours: Broker) -> None:
    stubs = [stub(priority) for _ in range(20) for priority in Priority]
    ours.publish(stubs)
    for priority, queue in PRIORITY_QUEUES.items():
        expected = [each.id for each in stubs if each.priority is priority]
        assert [message.headers["id"] for message in take(broker.url, queue)] == expected


def test_a_thousand_go_in_one_call(broker: Server, ours: Broker) -> None:
    ours.publish([stub() for _ in range(1000)])
    assert len(take(broker.url, PRIORITY_QUEUES[Priority.NORMAL])) == 1000


def test_nothing_is_no_work(ours: Broker) -> None:
    ours.publish([])
    assert ours.lost([]) == []


def test_what_is_queued_is_not_lost(ours: Broker) -> None:
    stubs = [stub(priority) for _ in range(30) for priority in (Priority.HIGH, Priority.LOW)]
    ours.publish(stubs)
    assert ours.lost(stubs) == []


def test_what_is_gone_is_lost(broker: Server, ours: Broker) -> None:
    kept, gone = [stub(Priority.HIGH) for _ in range(5)], [stub(Priority.LOW) for _ in range(5)]
    ours.publish(kept + gone)
    take(broker.url, PRIORITY_QUEUES[Priority.LOW])
    assert {each.id for each in ours.lost(kept + gone)} == {each.id for each in gone}
    assert ours.held()[Priority.LOW] == 0


def test_one_connection_lives_through_a_restart_of_the_broker(broker: Server, ours: Broker) -> None:
    first = stub()
    ours.publish([first])
    broker.kill()
    with pytest.raises(BrokerUnavailable) as error:
        ours.publish([stub()])
    assert "\n" not in str(error.value)
    broker.start()
    second = stub()
    ours.publish([second])
    ids = [message.headers["id"] for message in take(broker.url, PRIORITY_QUEUES[Priority.NORMAL])]
    assert ids[0] == first.id
    assert ids[-1] == second.id


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_is_not_there_is_one_clear_line_without_its_password(scheme: str) -> None:
    broker = open_broker(f"{scheme}://user:secret@127.0.0.1:{free_port()}//")
    with pytest.raises(BrokerUnavailable, match=r"^broker .*127.0.0.1.*refused") as error:
        broker.publish([stub()])
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("url", ["", "127.0.0.1:6379", "http://127.0.0.1", "sqs://", "memory://"])
def test_what_is_no_broker_is_refused_by_its_setting(url: str) -> None:
    with pytest.raises(SettingRefused, match=r"^broker.url: must begin with redis://"):
        open_broker(url)


class TestRedis:
    def test_what_a_worker_holds_is_not_lost(self, redis: RedisServer) -> None:
        broker, server = open_broker(redis.url), Redis.from_url(redis.url)
        leased, gone = stub(), stub()
        value = PRIORITY_QUEUES[Priority.NORMAL].encode() + b"\0" + redis_message(envelope(leased))
        server.hset(LEASED, "token", value)
        assert broker.lost([leased, gone]) == [gone]
        assert broker.held()[Priority.NORMAL] == 1
        broker.close()
        server.close()

    def test_an_older_delivery_does_not_stand_for_a_newer_one(self, redis: RedisServer) -> None:
        broker = open_broker(redis.url)
        old = stub()
        new = stub(id=old.id, delivery=2)
        broker.publish([old])
        assert broker.lost([new]) == [new]
        broker.close()

    def test_foreign_messages_in_a_queue_are_passed_over(self, redis: RedisServer) -> None:
        broker, server = open_broker(redis.url), Redis.from_url(redis.url)
        ours = stub()
        broker.publish([ours])
        for junk in (b"", b"{", b"\xff\xfe", b'{"headers": {"id": 7}}'):
            server.lpush(QUEUES[2], junk)
        assert broker.lost([ours]) == []
        broker.close()
        server.close()

    def test_a_full_server_is_named_as_such(self, redis: RedisServer) -> None:
        broker, server = open_broker(redis.url), Redis.from_url(redis.url)
        server.config_set("maxmemory", "1mb")
        with pytest.raises(BrokerUnavailable, match="maxmemory"):
            broker.publish([stub() for _ in range(2000)])
        server.config_set("maxmemory", "0")
        broker.publish([stub()])
        broker.close()
        server.close()


class TestRabbit:
    def test_a_deleted_queue_is_noticed_and_made_again(self, rabbitmq: VirtualHost) -> None:
        broker = open_broker(rabbitmq.url)
        broker.publish([stub()])
        with Connection(rabbitmq.url) as connection, connection.channel() as channel:
            channel.queue_delete(PRIORITY_QUEUES[Priority.NORMAL])
        sent = stub()
        broker.publish([sent])
        (message,) = take(rabbitmq.url, PRIORITY_QUEUES[Priority.NORMAL])
        assert message.headers["id"] == sent.id
        broker.close()

    def test_a_queue_made_otherwise_is_used_as_it_is(self, rabbitmq: VirtualHost) -> None:
        name = PRIORITY_QUEUES[Priority.NORMAL]
        with Connection(rabbitmq.url) as connection, connection.channel() as channel:
            channel.queue_declare(name, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})
        broker = open_broker(rabbitmq.url)
        broker.publish([stub()])
        assert len(take(rabbitmq.url, name)) == 1
        broker.close()

    def test_what_a_consumer_may_hold_is_lost_only_after_a_long_look(self, rabbitmq: VirtualHost) -> None:
        broker = open_broker(rabbitmq.url)
        held = stub()
        broker.publish([held])
        with Connection(rabbitmq.url) as connection, connection.channel() as channel:
            channel.basic_consume(PRIORITY_QUEUES[Priority.NORMAL], callback=lambda _: None)
            connection.drain_events(timeout=10)
            for _ in range(5):
                assert broker.lost([held]) == []
        assert broker.lost([held]) == []  # given back when its consumer went
        broker.close()

    def test_messages_outlive_the_server(self, rabbitmq: VirtualHost, rabbitmq_server: RabbitServer) -> None:
        broker = open_broker(rabbitmq.url)
        broker.publish([stub() for _ in range(50)])
        rabbitmq_server.kill()
        rabbitmq_server.start()
        assert len(take(rabbitmq.url, PRIORITY_QUEUES[Priority.NORMAL])) == 50
        broker.close()
