"""So many tickets of a tenant or a job at once, in a fleet of two workers."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import sqlalchemy as sa

from schemas.ledger import reading
from schemas.states import State
from schemas.tables import tickets
from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture
def rig(broker: Broker, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path) -> Generator[Rig]:
    rig = Rig(broker.url, sqlite_ledger, process, tmp_path)
    yield rig
    rig.close()


def running(rig: Rig) -> dict[tuple[str, str], int]:
    query = sa.select(tickets.c.tenant, tickets.c.job, sa.func.count()).where(tickets.c.state == State.RUNNING.value)
    with reading(rig.engine) as connection:
        rows = connection.execute(query.group_by(tickets.c.tenant, tickets.c.job)).all()
    return {(tenant, job): count for tenant, job, count in rows}


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)
def test_the_fleet_never_runs_more_than_the_limits_allow_and_answers_everyone(
    rig: Rig, sqlite_ledger: TestLedger, tmp_path: Path
) -> None:
    file = rig.config(limits={"tenants": {"acme": 3}, "jobs": {"triage": 2}})
    serving = Serving(sys.executable, sqlite_ledger.url, rig.broker_url, tmp_path, {"TICKETMILL_CONFIG": str(file)})
    serving.start()
    try:
        for tenant in ("acme", "globex"):
            lines = b"".join(
                b'{"body": "%d", "job": "%s"}\n' % (n, b"triage" if n % 3 == 0 else b"reply") for n in range(60)
            )
            with serving.client(new_key(sqlite_ledger.url, tenant)) as api:
                assert api.post("/v1/tickets", content=lines, headers=NDJSON).text.count('"id"') == 60
        for _ in range(2):
            rig.worker(app="tests.faults.slow_app", worker_batch_policy="fixed", worker_batch_start=8)
        most = {"acme": 0, "triage": 0, "globex": 0}

        def done() -> bool:
            counts = running(rig)
            for name in most:
                most[name] = max(most[name], sum(count for key, count in counts.items() if name in key))
            return rig.states() == {"answered": 120}

        wait_until(done, 120, why=lambda: f"{rig.states()} {most}")
        assert most["acme"] <= 3
        assert most["triage"] <= 2
        assert most["globex"] > 3  # who has no limit is not held back by others'
    finally:
        serving.close()
