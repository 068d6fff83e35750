"""A tenant's flood, and another tenant who comes after it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import sqlalchemy as sa

from schemas.ledger import reading
from schemas.tables import answers, tickets
from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

two_brokers = pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)
NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture
def rig(broker: Broker, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path) -> Generator[Rig]:
    rig = Rig(broker.url, sqlite_ledger, process, tmp_path)
    yield rig
    rig.close()


def answered(rig: Rig, tenant: str) -> int:
    query = sa.select(sa.func.count()).select_from(answers).join(tickets, tickets.c.id == answers.c.ticket_id)
    with reading(rig.engine) as connection:
        return connection.execute(query.where(tickets.c.tenant == tenant)).scalar_one()


@two_brokers
def test_who_comes_after_a_flood_does_not_wait_for_its_end(rig: Rig, sqlite_ledger: TestLedger, tmp_path: Path) -> None:
    serving = Serving(sys.executable, sqlite_ledger.url, rig.broker_url, tmp_path)
    serving.start()
    try:
        lines = b"".join(b'{"body": "Question %d"}\n' % n for n in range(2500))
        with serving.client(new_key(sqlite_ledger.url, "acme")) as acme:
            assert acme.post("/v1/tickets", content=lines, headers=NDJSON).text.count('"state":"queued"') == 2500
        with serving.client(new_key(sqlite_ledger.url, "globex")) as globex:
            few = b"".join(b'{"body": "Mine %d"}\n' % n for n in range(10))
            assert globex.post("/v1/tickets", content=few, headers=NDJSON).text.count('"state":"queued"') == 10
        rig.worker(app="tests.faults.slow_app", worker_batch_policy="fixed", worker_batch_start=8)
        wait_until(lambda: answered(rig, "globex") == 10, 120)
        assert answered(rig, "acme") <= 1500
        rig.until({"answered": 2510}, 120)
    finally:
        serving.close()
