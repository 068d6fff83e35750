"""The ground itself: what the other tests take for granted."""

from __future__ import annotations

from collections.abc import Callable

import kombu
import pytest
import sqlalchemy as sa

from schemas.ledger import reading, writing
from schemas.tables import strays, workers
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.waiting import wait_until


def put(url: str, word: str) -> None:
    # A broker may lose what it has not confirmed.
    options = {"confirm_publish": True} if url.startswith("amqp") else {}
    with (
        kombu.Connection(url, transport_options=options) as connection,
        connection.SimpleQueue("ground") as queue,
    ):
        queue.put(word, delivery_mode=2)


def got(url: str) -> str | None:
    with kombu.Connection(url) as connection, connection.SimpleQueue("ground") as queue:
        try:
            message = queue.get(timeout=0.5)
        except queue.Empty:
            return None
        message.ack()
        return message.payload


def test_a_killed_broker_comes_back_where_it_was_with_what_it_had(broker: Broker) -> None:
    put(broker.url, "kept")
    before = broker.pid
    broker.kill()
    assert not broker.alive
    broker.start()
    assert broker.pid != before
    assert got(broker.url) == "kept"


def test_every_test_has_an_empty_broker(broker: Broker) -> None:
    assert got(broker.url) is None


def test_a_stopped_broker_comes_back_with_what_it_had(broker: Broker) -> None:
    put(broker.url, "kept")
    broker.stop()
    broker.start()
    assert got(broker.url) == "kept"


def test_a_forgetful_redis_comes_back_empty(forgetful_redis: Broker) -> None:
    put(forgetful_redis.url, "gone")
    forgetful_redis.kill()
    forgetful_redis.start()
    assert got(forgetful_redis.url) is None


def test_a_frozen_broker_goes_on_once_resumed(broker: Broker) -> None:
    put(broker.url, "kept")
    broker.pause()
    broker.resume()
    assert got(broker.url) == "kept"


def test_every_test_has_an_empty_migrated_ledger(ledger: TestLedger) -> None:
    with reading(ledger.engine) as connection:
        assert connection.execute(sa.select(strays)).all() == []


def test_a_killed_database_comes_back_with_what_was_committed(postgresql_ledger: TestLedger) -> None:
    assert postgresql_ledger.server is not None
    now = sa.func.now()
    with writing(postgresql_ledger.engine) as connection:
        row = {"name": "w1", "slots": 1, "model": "m", "started_at": now, "seen_at": now}
        connection.execute(sa.insert(workers).values(row))
    postgresql_ledger.server.kill()
    postgresql_ledger.server.start()
    with reading(postgresql_ledger.engine) as connection:
        assert connection.execute(sa.select(workers.c.name)).scalars().all() == ["w1"]


def test_a_process_is_ended_by_its_pid_and_its_words_are_kept(process: Callable[..., Process]) -> None:
    child = process("http.server", "--bind", "127.0.0.1", "0")
    wait_until(lambda: "Serving HTTP" in child.output(), why=child.output)
    child.kill()
    assert child.exit_code == -9


def test_a_condition_that_never_comes_true_is_named() -> None:
    with pytest.raises(AssertionError, match=r"not true within 0.01 s: .*1 > 2.*\(last: False\) because"):
        wait_until(lambda: 1 > 2, 0.01, why="because")


def test_real_tickets_are_real(real_tickets: Callable[..., list[dict[str, str]]]) -> None:
    assert {row["lang"] for row in real_tickets("tickets_zh", most=20)} == {"zh"}
