"""A worker as its operators and its users see it, between real brokers, ledgers and stock Celery programs."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from celery.events.state import State
from celery.result import AsyncResult
from kombu import Connection, Queue
from redis import Redis

from schemas.errors import NotAnswered
from schemas.ledger import reading, writing
from schemas.queues import INLET, PRIORITY_QUEUES, QUEUES, TASK
from schemas.tables import aliases, strays
from schemas.ticket import Priority
from tests.contract.post import Post
from tests.contract.tickets import put, row, rows_of
from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import Broker, RedisServer
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.waiting import wait_until

LOW = PRIORITY_QUEUES[Priority.LOW]
two_brokers = pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)


@pytest.fixture
def rig(broker: Broker, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path) -> Generator[Rig]:
    rig = Rig(broker.url, sqlite_ledger, process, tmp_path)
    yield rig
    rig.close()


def ready(worker: Process) -> Process:
    wait_until(lambda: " ready." in worker.output() or not worker.alive, 60)
    assert worker.alive, worker.output()
    return worker


def test_every_ticket_is_answered_once_and_nothing_is_left(rig: Rig) -> None:
    for priority in Priority:
        rig.send(60, priority=priority)
    worker = rig.worker(app="workers.app", worker_engine="noop")
    rig.until({"answered": 300})
    worker.terminate()
    assert worker.wait() == 0
    assert rig.answers() == 300
    assert rig.messages_left() == 0


def test_over_postgresql_too(
    redis: RedisServer, postgresql_ledger: TestLedger, process: StartProcess, tmp_path: Path
) -> None:
    rig = Rig(redis.url, postgresql_ledger, process, tmp_path)
    head, following = put(rig.engine, 2, conversation="thread")
    rig.publish([head])
    rig.send(60)
    rig.worker(app="workers.app")
    rig.until({"answered": 61, "queued": 1})
    assert row(rig.engine, following.id)["due_at"] is not None  # the relay's turn now
    rig.close()


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
def test_quorum_queues_that_are_there_are_drained_as_they_are(rig: Rig) -> None:
    with Connection(rig.broker_url) as connection, connection.channel() as channel:
        for name in (*QUEUES, INLET):
            channel.queue_declare(name, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})
    rig.send(60)
    rig.worker(app="workers.app", worker_engine="noop")
    rig.until({"answered": 60})
    wait_until(lambda: rig.messages_left() == 0)


@two_brokers
def test_flower_sees_each_ticket_received_started_and_succeeded(rig: Rig) -> None:
    app = rig.celery()
    state = State()
    seen: dict[str, list[str]] = {}

    def note(event: dict[str, Any]) -> None:
        state.event(event)
        seen.setdefault(event.get("uuid", event["type"]), []).append(event["type"])

    with app.connection() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": note})
        with receiver.consumer_context() as (hearing, _, _):

            def heard(endings: int) -> bool:
                hearing.drain_events(timeout=20)
                ended = sum(kinds[-1] in ("task-succeeded", "task-failed") for kinds in seen.values())
                return "worker-online" in seen and ended == endings

            worker = rig.worker()
            wait_until(lambda: heard(0), 60)
            answered, failed = rig.send(40), rig.send(2, body="fail")
            wait_until(lambda: heard(42), 60, why=lambda: str(seen))
            worker.terminate()
    for stub in answered:
        assert seen[stub.id] == ["task-received", "task-started", "task-succeeded"]
        task = state.tasks[stub.id]
        (attempt,) = rows_of(rig.engine, "attempts", stub.id)
        assert (task.state, task.name) == ("SUCCESS", TASK)
        assert task.result == f"{{'batch': '{attempt['batch']}', 'batch_size': {attempt['batch_size']}}}"
    for stub in failed:
        assert seen[stub.id] == ["task-received", "task-started", "task-failed"]
        assert "9 tokens over the context" in state.tasks[stub.id].exception
    assert worker.wait() == 0


def test_celery_programs_get_answers_as_results(
    redis: RedisServer, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path
) -> None:
    rig = Rig(redis.url, sqlite_ledger, process, tmp_path)
    backend = f"redis://127.0.0.1:{redis.port}/1"
    (answered,), (dead,) = put(rig.engine), put(rig.engine, body="fail")
    with writing(rig.engine) as connection:
        connection.execute(sa.insert(aliases), [{"task_id": "asked-by-celery", "ticket_id": answered.id}])
    rig.publish([answered, dead])
    rig.worker(broker_result_backend=backend)
    app = rig.celery(result_backend=backend)
    for task_id in (answered.id, "asked-by-celery"):
        answer = AsyncResult(task_id, app=app).get(timeout=60)
        assert (answer["text"], answer["model"], answer["batch_size"]) == ("Where is my parcel?", "gated", 2)
    with pytest.raises(NotAnswered, match="9 tokens over the context"):
        AsyncResult(dead.id, app=app).get(timeout=60)
    rig.close()


@two_brokers
def test_what_is_no_admitted_ticket_finds_its_place(rig: Rig) -> None:
    post = Post(rig.broker_url)
    ready(rig.worker())
    raw = post.send_task(LOW)
    post.publish(b"\xff garbage", LOW, {"who": "knows"})
    post.publish(b"[[],{},{}]", LOW, {"id": "x", "task": "shop.other_task", "lang": "py"})
    rig.send(1)
    rig.until({"answered": 1})
    (message,) = wait_until(lambda: post.stock_messages(INLET))
    assert message.headers["id"] == raw
    with reading(rig.engine) as connection:
        kept = wait_until(lambda: _two(connection.execute(sa.select(strays.c.body, strays.c.queue)).all()))
    assert all(queue == LOW for _, queue in kept)
    wait_until(lambda: rig.messages_left() == 0)


def test_a_ticket_whose_job_is_gone_is_dead_with_what_to_do(
    redis: RedisServer, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path
) -> None:
    rig = Rig(redis.url, sqlite_ledger, process, tmp_path)
    (stub,) = rig.send(1, job="poetry")
    rig.send(1)
    rig.worker()
    rig.until({"answered": 1, "dead": 1})
    assert rig.reasons()[stub.id] == "there is no job 'poetry' here; add it under jobs and queue the ticket again"
    rig.close()


@two_brokers
def test_tickets_on_another_queue_are_drained_through_celerys_consumer(rig: Rig) -> None:
    stubs = put(rig.engine, 20)
    arguments = {} if rig.broker_url.startswith("redis") else {"x-max-priority": 10}
    queue = Queue("elsewhere", routing_key="elsewhere", durable=True, queue_arguments=arguments)
    with rig.celery().connection() as connection, connection.channel() as channel:
        queue(channel).declare()
        for each in stubs:
            _as_celery_would(connection, queue, each)
        worker = ready(rig.worker("-Q", "elsewhere", app="tests.faults.elsewhere_app"))
        rig.until({"answered": 20})
        if arguments:
            wait_until(lambda: channel.queue_declare("elsewhere", passive=True).message_count == 0)
    worker.terminate()
    assert worker.wait() == 0
    assert rig.answers() == 20


@two_brokers
def test_work_goes_on_when_the_broker_was_away(rig: Rig, broker: Broker) -> None:
    rig.send(2, body="wait")
    worker = ready(rig.worker(worker_lease="30s"))
    rig.until_seen(2)
    broker.kill()
    wait_until(lambda: "Connection to broker lost" in worker.output())
    broker.start()
    rig.let_go(2)
    rig.until({"answered": 2})
    rig.send(5)
    rig.until({"answered": 7}, 60)
    assert rig.answers() == 7
    assert len(rig.seen) == 7  # what ran while the broker was away was not begun again
    wait_until(lambda: rig.messages_left() == 0)


def test_nothing_is_acknowledged_while_the_ledger_is_away(
    redis: RedisServer, postgresql_ledger: TestLedger, process: StartProcess, tmp_path: Path
) -> None:
    server = postgresql_ledger.server
    assert server is not None
    rig = Rig(redis.url, postgresql_ledger, process, tmp_path)
    rig.send(2, body="wait")
    worker = ready(rig.worker(worker_lease="1s"))
    rig.until_seen(2)
    server.kill()
    rig.let_go(2)
    wait_until(lambda: "nothing is acknowledged until it answers" in worker.output())
    with Redis.from_url(redis.url) as client:
        wait_until(lambda: client.hlen("ticketmill:leased") == 2)
    server.start()
    rig.until({"answered": 2})
    wait_until(lambda: "the ledger answers again" in worker.output())
    wait_until(lambda: rig.messages_left() == 0)
    rig.close()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"broker_url": "gopher://x"}, "broker.url"),
        ({"ledger_url": "mysql://x/y"}, "ledger.url"),
        ({"worker_lease": "soon"}, "worker.lease"),
        ({"worker_colour": "red"}, "TICKETMILL_WORKER_COLOUR"),
    ],
)
def test_settings_that_cannot_be_used_end_the_worker_with_one_line(
    redis: RedisServer,
    sqlite_ledger: TestLedger,
    process: StartProcess,
    tmp_path: Path,
    settings: dict[str, str],
    line: str,
) -> None:
    rig = Rig(redis.url, sqlite_ledger, process, tmp_path)
    worker = rig.worker(app="workers.app", **settings)
    assert worker.wait() == 1
    assert line in worker.output()
    assert "Traceback" not in worker.output()
    rig.close()


def test_a_ledger_without_tables_ends_the_worker_with_what_to_do(
    redis: RedisServer, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path
) -> None:
    rig = Rig(redis.url, sqlite_ledger, process, tmp_path)
    worker = rig.worker(app="workers.app", ledger_url=f"sqlite:///{tmp_path}/empty.db")
    assert worker.wait() == 1
    assert "ticketmill migrate" in worker.output()
    assert "Traceback" not in worker.output()
    rig.close()


def test_a_model_that_cannot_be_used_ends_the_worker_with_what_to_do(
    redis: RedisServer, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path
) -> None:
    rig = Rig(redis.url, sqlite_ledger, process, tmp_path)
    worker = rig.worker(app="tests.faults.refusing_app")
    assert worker.wait() == 1
    assert "model m: is of no use. Take another" in worker.output()
    assert "Traceback" not in worker.output()
    rig.close()


def test_the_prefork_pool_is_refused_with_the_way_out(
    redis: RedisServer, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path
) -> None:
    rig = Rig(redis.url, sqlite_ledger, process, tmp_path)
    worker = rig.worker(app="tests.faults.prefork_app", worker_engine="local")
    assert worker.wait() == 1
    assert "-P threads" in worker.output()
    assert "Traceback" not in worker.output()
    rig.close()


def _two(rows: Any) -> Any:
    return rows if len(rows) == 2 else None


def _as_celery_would(connection: Any, queue: Queue, stub: Any) -> None:
    from schemas.envelope import envelope

    sealed = envelope(stub)
    connection.Producer().publish(
        sealed.body,
        exchange="",
        routing_key=queue.name,
        headers=sealed.headers,
        content_type="application/json",
        content_encoding="utf-8",
        correlation_id=stub.id,
    )
