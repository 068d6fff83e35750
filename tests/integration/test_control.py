"""A worker under Celery's remote control, and what it owes to deadlines, limits and less urgent work."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from producer.adapters.outbox import SqlOutbox
from schemas.queues import QUEUES, TASK
from schemas.ticket import Priority
from tests.contract.tickets import NOON, row
from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.waiting import wait_until
from workers.adapters.clock import utc_now

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


@two_brokers
def test_inspect_and_control_tell_the_truth(rig: Rig) -> None:
    stubs = rig.send(3, body="wait")
    worker = ready(rig.worker("-n", "mill@here", worker_batch_policy="fixed", worker_batch_start=2))
    rig.until_seen(2)
    app = rig.celery()
    inspect = app.control.inspect(["mill@here"], timeout=5.0)
    assert inspect.ping() == {"mill@here": {"ok": "pong"}}
    active = _only(inspect.active())
    assert {request["id"] for request in active} == {ticket_id for ticket_id, _ in rig.seen}
    assert all(request["name"] == TASK and request["time_start"] for request in active)
    assert [queue["name"] for queue in _only(inspect.active_queues())] == list(QUEUES)
    assert _only(inspect.registered()) == [TASK]
    drain = _only(inspect.stats())["drain"]
    assert (drain["slots"], drain["inside"]) == (2, 2)
    (known,) = _only(inspect.query_task(active[0]["id"])).values()
    assert known[0] == "active"
    rig.let_go(3)
    rig.until({"answered": 3})
    wait_until(lambda: _only(inspect.active()) == [])
    assert _only(inspect.stats())["total"] == {TASK: len(stubs)}
    app.control.broadcast("shutdown", destination=["mill@here"])
    assert worker.wait() == 0


@two_brokers
def test_what_is_revoked_or_too_late_never_begins(rig: Rig) -> None:
    rig.send(1, body="wait", priority=Priority.HIGH)
    file = rig.config(jobs={"patient": {"system": "Answer.", "late": "answer"}})
    worker = ready(rig.worker("-n", "mill@here", worker_batch_policy="fixed", worker_batch_start=1, config=file))
    rig.until_seen(1)
    (late,) = rig.send(1, deadline=NOON)
    (kept,) = rig.send(1, deadline=NOON, job="patient")
    (unwanted,) = rig.send(1)
    assert _only(rig.celery().control.revoke(unwanted.id, destination=["mill@here"], reply=True, timeout=5.0)[0])
    rig.let_go(1)
    rig.until({"answered": 1, "cancelled": 1, "dead": 1, "queued": 1})
    outbox = SqlOutbox(rig.engine)
    wait_until(lambda: (stubs := outbox.unpublished(9, utc_now())) and [each.id for each in stubs] == [kept.id])
    (again,) = outbox.unpublished(9, utc_now())
    assert again.priority is Priority.LOW
    rig.publish([again])
    rig.until({"answered": 2, "cancelled": 1, "dead": 1})
    reasons = rig.reasons()
    assert reasons[unwanted.id] == "revoked by remote control before it began"
    assert reasons[late.id] == "its deadline passed before a worker could begin"
    wait_until(lambda: rig.messages_left() == 0)
    worker.terminate()
    assert worker.wait() == 0


@two_brokers
def test_what_is_terminated_leaves_its_slot_for_good(rig: Rig) -> None:
    (unwanted,) = rig.send(1, body="wait")
    worker = ready(rig.worker("-n", "mill@here", worker_batch_policy="fixed", worker_batch_start=2))
    rig.until_seen(1)
    terminated = rig.celery().control.terminate(unwanted.id, destination=["mill@here"], reply=True, timeout=5.0)
    assert "ok" in _only(terminated[0])
    rig.until({"cancelled": 1})
    assert rig.reasons()[unwanted.id] == "revoked by remote control while it ran"
    rig.let_go(1)  # the engine comes to its next token boundary
    rig.send(2)
    rig.until({"cancelled": 1, "answered": 2})
    assert rig.answers() == 2
    worker.terminate()
    assert worker.wait() == 0


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_a_tickets_own_time_limit_holds_for_it_alone(rig: Rig) -> None:
    once = rig.config(retry={"time_limit": {"delay": 0, "retries": 0, "then": "dead"}})
    rig.send(1, body="wait")
    (hasty,) = rig.send(1, body="wait", time_limit=0.5)
    ready(rig.worker(worker_batch_policy="fixed", worker_batch_start=4, config=once))
    rig.until({"dead": 1, "running": 1})
    assert "more than 0.5 s (its own time_limit)" in rig.reasons()[hasty.id]
    rig.let_go(2)
    rig.until({"dead": 1, "answered": 1})


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_a_ticket_over_its_time_limit_leaves_its_slot(rig: Rig) -> None:
    once = rig.config(retry={"time_limit": {"delay": 0, "retries": 0, "then": "dead"}})
    settings = {"worker_time_limit": "1s", "config": once}
    (stuck,) = rig.send(1, body="wait")
    worker = ready(rig.worker(worker_batch_policy="fixed", worker_batch_start=4, **settings))
    rig.until({"dead": 1})
    assert "worker.time_limit" in rig.reasons()[stuck.id]
    rig.let_go(1)  # the engine comes to its next token boundary
    rig.send(3)
    rig.until({"dead": 1, "answered": 3})
    worker.terminate()
    assert worker.wait() == 0


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_remote_control_sets_the_rate_and_cannot_grow_a_pool(rig: Rig) -> None:
    ready(rig.worker("-n", "mill@here"))
    control = rig.celery().control
    for command in (control.pool_grow, control.pool_shrink):
        assert "worker.batch.cap" in _only(command(1, destination=["mill@here"], reply=True, timeout=5.0)[0])["error"]
    limited = control.rate_limit(TASK, "1/h", destination=["mill@here"], reply=True, timeout=5.0)
    assert limited == [{"mill@here": {"ok": "new rate limit set successfully"}}]
    rig.send(20)
    assert _only(control.inspect(["mill@here"], timeout=5.0).stats())["drain"]["held"] == 0
    control.rate_limit(TASK, 0, destination=["mill@here"], reply=True, timeout=5.0)
    rig.until({"answered": 20})


@two_brokers
def test_low_work_moves_under_a_flood_of_more_urgent_work(rig: Rig) -> None:
    (low,) = rig.send(1, priority=Priority.LOW)
    rig.send(3000, priority=Priority.HIGH)
    rig.worker(app="tests.faults.slow_app", worker_batch_policy="fixed", worker_batch_start=2, worker_patience="1s")
    wait_until(lambda: row(rig.engine, low.id)["state"] == "answered", 30)
    assert rig.states()["queued"] > 100


def _only(replies: dict[str, Any] | None) -> Any:
    assert replies
    (value,) = replies.values()
    return value
