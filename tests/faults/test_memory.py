"""Too little memory, and a device that is lost: what runs goes on with less, or elsewhere, and nobody is forgotten."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
import sqlalchemy as sa

from producer.adapters.outbox import SqlOutbox
from schemas.breaker import Breaker, Mode
from schemas.breakers import read_breakers
from schemas.ledger import reading
from schemas.tables import answers
from tests.contract.tickets import rows_of
from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.waiting import wait_until
from workers.adapters.clock import utc_now


@pytest.fixture
def rig(broker: Broker, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path) -> Generator[Rig]:
    rig = Rig(broker.url, sqlite_ledger, process, tmp_path)
    yield rig
    rig.close()


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
@pytest.mark.parametrize("fits", [1, 3, 11])
def test_the_largest_batch_that_fits_is_found_and_everyone_is_answered(
    rig: Rig, fits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUNGRY_ROWS", str(fits))
    rig.send(150)
    rig.worker(app="tests.faults.hungry_app", worker_batch_start=16, worker_batch_cap=16)
    rig.until({"answered": 150}, 60)
    steps = [line.split() for line in (tmp_path / "steps").read_text().splitlines()]
    failed = [int(rows) for rows, how, _ in steps if how == "failed"]
    assert failed, "the limit was never met"
    assert len(failed) <= 5
    assert failed == sorted(set(failed), reverse=True)  # never again as many as have failed before
    assert max(int(rows) for rows, how, _ in steps[len(steps) // 2 :] if how == "fitted") <= fits
    held = [int(resident) for _, _, resident in steps]
    assert held[-1] <= held[0] + 16_000_000


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_a_ticket_that_alone_is_too_large_is_dead_and_its_neighbours_are_not(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUNGRY_ROWS", "0")
    (stub,) = rig.send(1)
    worker = rig.worker(app="tests.faults.hungry_app")
    rig.until({"dead": 1})
    assert rig.reasons()[stub.id].startswith("out_of_memory: MemoryError")
    assert worker.alive


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)
def test_batches_that_fail_in_a_row_have_memory_reclaimed_step_by_step(rig: Rig) -> None:
    file = rig.config(reclaim={"failed_batches": 2}, retry={"engine": {"delay": 0, "retries": 0, "then": "dead"}})
    worker = rig.worker(worker_batch_policy="fixed", worker_batch_start=1, config=file)
    rig.send(3, body="raise")
    rig.until({"dead": 3})
    wait_until(lambda: "idle prefixes dropped" in worker.output(), why=worker.output)
    rig.send(3)
    rig.until({"dead": 3, "answered": 3})


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)
def test_a_worker_that_lost_its_device_starts_again_and_its_tickets_return(rig: Rig) -> None:
    waiting = rig.send(3, body="wait")
    rig.send(1, body="assert")
    worker = rig.worker(worker_batch_policy="fixed", worker_batch_start=4)
    wait_until(lambda: sum("lost the device" in reason for reason in rig.reasons().values()) == 4)
    rig.publish(SqlOutbox(rig.engine).unpublished(10, utc_now()))
    rig.until_seen(8)  # all of them once more, at a process that is new
    rig.let_go(3)
    rig.until({"answered": 4})
    assert worker.alive
    assert worker.output().count(" ready.") == 2
    attempts = [rows_of(rig.engine, "attempts", stub.id) for stub in waiting]
    assert all(each[-1]["outcome"] == "answered" for each in attempts)


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_a_full_device_is_left_for_the_processor_and_taken_up_again(rig: Rig, tmp_path: Path) -> None:
    def answered_by(device: str) -> bool:
        rig.send(4)
        with reading(rig.engine) as connection:
            latest = connection.scalars(sa.select(answers.c.document).order_by(answers.c.at.desc()).limit(1)).all()
        return any(f'"model":"{device}"' in document for document in latest)

    def breaker() -> Breaker | None:
        with reading(rig.engine) as connection:
            return next((each for name, each in read_breakers(connection).items() if name.startswith("gpu:")), None)

    (tmp_path / "gpu").write_text("0.95 0.5")
    file = rig.config(circuit_breaker={"gpu": {"memory_threshold": 90, "duration": "3s"}})
    rig.worker(app="tests.faults.fed_gpu_app", config=file)
    wait_until(lambda: answered_by("cuda"))
    wait_until(lambda: answered_by("cpu"))
    opened = breaker()
    assert opened is not None
    assert opened.reason.startswith("memory 95%")
    assert (tmp_path / "reclaimed").read_text().startswith("idle prefixes dropped")
    (tmp_path / "gpu").write_text("0.5 0.99")
    wait_until(lambda: answered_by("cuda"))
    wait_until(lambda: answered_by("cuda") and (known := breaker()) is not None and known.mode is Mode.CLOSED)
