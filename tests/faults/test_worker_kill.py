"""Workers that are killed, stopped and frozen: nothing is lost, and nothing is answered twice."""

from __future__ import annotations

import signal
from datetime import datetime

import pytest
import sqlalchemy as sa

from schemas.ledger import reading
from schemas.tables import workers
from schemas.ticket import Priority
from tests.contract.tickets import rows_of
from tests.faults.rig import Rig
from tests.ground.waiting import wait_until

two_brokers = pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)

SMALL = {"worker_batch_policy": "fixed", "worker_batch_start": 4, "worker_lease": "1s"}


def test_a_worker_killed_in_mid_batch_loses_nothing_and_doubles_nothing(rig: Rig) -> None:
    rig.send(4, body="wait")
    rig.send(40)
    worker = rig.worker(**SMALL)
    rig.until_seen(4)
    worker.kill()
    rig.let_go(4)
    rig.worker(**SMALL)
    rig.until({"answered": 44})
    assert rig.answers() == 44
    wait_until(lambda: rig.messages_left() == 0)


@two_brokers
def test_a_worker_killed_again_and_again_loses_nothing(rig: Rig) -> None:
    stubs = rig.send(2_000)  # more than a worker answers before it is killed
    for _ in range(2):
        before = len(rig.seen)
        worker = rig.worker(**SMALL)
        rig.until_seen(before + 8)
        worker.kill()
    rig.worker(**SMALL)
    rig.until({"answered": len(stubs)}, 60)
    assert rig.answers() == len(stubs)


@two_brokers
def test_told_to_stop_a_worker_finishes_what_runs_and_returns_what_waits(rig: Rig) -> None:
    running = rig.send(4, body="wait", priority=Priority.HIGH)
    rig.send(100, priority=Priority.LOW)
    worker = rig.worker(**SMALL | {"worker_lease": "30s"})
    rig.until_seen(4)
    worker.terminate()
    wait_until(lambda: "Warm shutdown" in worker.output())
    rig.let_go(4)
    assert worker.wait() == 0
    assert rig.states() == {"answered": 4, "queued": 100}
    assert {ticket_id for ticket_id, _ in rig.seen} == {stub.id for stub in running}
    assert rig.messages_left() == 100


@two_brokers
def test_told_twice_a_worker_gives_back_what_runs(rig: Rig) -> None:
    (stub,) = rig.send(1, body="wait")
    worker = rig.worker(**SMALL | {"worker_lease": "30s"})
    rig.until_seen(1)
    worker.terminate()
    wait_until(lambda: "Warm shutdown" in worker.output())
    worker.terminate()
    assert worker.wait() == 0
    assert rig.states() == {"queued": 1}
    assert rig.reasons()[stub.id] == "its worker was told to stop at once"
    assert rig.messages_left() == 0  # the relay publishes it anew, as a new delivery


@two_brokers
def test_the_late_outcome_of_a_frozen_worker_does_not_count(rig: Rig) -> None:
    (stub,) = rig.send(1, body="wait")
    frozen = rig.worker(**SMALL)
    rig.until_seen(1)
    frozen.pause()
    other = rig.worker(**SMALL)
    rig.until_seen(2)
    frozen.resume()
    rig.let_go(2)
    rig.until({"answered": 1})
    wait_until(lambda: "did not count" in frozen.output() + other.output(), why=lambda: frozen.output(2000))
    assert rig.answers() == 1
    (attempt,) = rows_of(rig.engine, "attempts", stub.id)
    assert attempt["start"] == 2


@two_brokers
def test_a_step_longer_than_lease_and_heartbeat_stays_with_its_worker(rig: Rig) -> None:
    (stub,) = rig.send(1, body="wait")
    rig.worker(**SMALL)
    rig.until_seen(1)
    rig.worker(**SMALL)  # would take it over
    beats: set[tuple[str, datetime]] = set()

    def three_leases_passed() -> bool:
        with reading(rig.engine) as connection:
            rows = connection.execute(sa.select(workers.c.name, workers.c.seen_at)).all()
        beats.update((name, seen_at) for name, seen_at in rows)
        return len({name for name, _ in beats}) == 2 and len(beats) >= 24  # both beat three times a lease

    wait_until(three_leases_passed, 60)
    rig.let_go(1)
    rig.until({"answered": 1})
    (attempt,) = rows_of(rig.engine, "attempts", stub.id)
    assert attempt["start"] == 1
    assert len(rig.seen) == 1


@two_brokers
def test_an_urgent_ticket_has_the_next_free_slot(rig: Rig) -> None:
    rig.send(5_000, body="wait", priority=Priority.LOW)
    rig.worker(worker_batch_policy="fixed", worker_batch_start=4)
    rig.until_seen(4)
    (urgent,) = rig.send(1, priority=Priority.URGENT)
    wait_until(lambda: rig.waiting_on(Priority.URGENT) == 0 or rig.broker_url.startswith("redis"))

    def filled() -> bool:
        rig.let_go(1)  # more than once, for a step may begin before the slot that the last one freed is filled
        return len(rig.seen) > 4

    wait_until(filled)
    assert rig.seen[4][0] == urgent.id


@two_brokers
def test_a_batch_that_fails_is_split_until_the_poison_stands_alone(rig: Rig) -> None:
    healthy = rig.send(7)
    (poison,) = rig.send(1, body="raise")
    once = rig.config(retry={"engine": {"delay": 0, "retries": 0, "then": "dead"}})
    rig.worker(worker_batch_policy="fixed", worker_batch_start=8, config=once)
    rig.until({"answered": 7, "dead": 1})
    assert "no batch survives" in rig.reasons()[poison.id]
    assert all(len(rows_of(rig.engine, "attempts", stub.id)) == 1 for stub in healthy)


@two_brokers
def test_a_ticket_that_kills_its_worker_is_given_up_and_its_neighbours_are_answered(rig: Rig) -> None:
    rig.send(3)
    (killer,) = rig.send(1, body="kill")
    settings = SMALL | {"worker_most_starts": 2}
    for _ in range(6):
        worker = rig.worker(**settings)
        wait_until(
            lambda worker=worker: not worker.alive or rig.states() == {"answered": 3, "dead": 1},
            why=lambda: f"{rig.states()} {rig.seen}",
        )
        if worker.alive:
            break
        assert worker.exit_code == -signal.SIGKILL
    assert rig.states() == {"answered": 3, "dead": 1}
    assert "worker's log" in rig.reasons()[killer.id]
