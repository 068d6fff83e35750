"""Real tickets in over HTTP, real answers of the packaged model out, every part a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import httpx
import jsonschema
import pytest
import sqlalchemy as sa

from schemas.ledger import reading
from schemas.shipped_jobs import SHIPPED_JOBS
from schemas.tables import answers, strays, tickets
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.real_text import Rows
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

CUSTOMERS = 48
JOBS = ("triage", "triage", "triage", "summarise", "triage", "reply")
PRIORITIES = ("urgent", "high", "normal", "low", "backfill")
UNFINISHED = {"received", "queued", "running", "waiting", "parked"}


@pytest.fixture
def mixed(real_tickets: Callable[..., Rows]) -> list[dict[str, str]]:
    """Customers' tickets, half English and half Chinese, and a tenth of the strings that are known to break things."""
    half = CUSTOMERS // 2
    rows = [*real_tickets("tickets_en")[::140][:half], *real_tickets("tickets_zh")[::50][:half]]
    rows += real_tickets("edge_strings")[::10]
    return [
        {
            "body": row["text"],
            "external_id": row["id"],
            "job": "triage" if row["id"].startswith("blns") else JOBS[at % len(JOBS)],
            "priority": PRIORITIES[at % len(PRIORITIES)],
        }
        for at, row in enumerate(rows)
    ]


@pytest.fixture
def api(postgresql_ledger: TestLedger, broker: Broker, tmp_path: Path) -> Generator[httpx.Client]:
    serving = Serving(sys.executable, postgresql_ledger.url, broker.url, tmp_path)
    serving.start()
    with serving.client(new_key(postgresql_ledger.url)) as client:
        yield client
    serving.close()


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)
def test_every_ticket_that_is_accepted_is_answered(
    api: httpx.Client,
    broker: Broker,
    postgresql_ledger: TestLedger,
    process: Callable[..., Process],
    packaged: Path,
    mixed: list[dict[str, str]],
) -> None:
    engine = postgresql_ledger.engine
    body = "\n".join(json.dumps(each) for each in mixed)
    posted = api.post("/v1/tickets", content=body, headers={"Content-Type": "application/x-ndjson"})
    lines = [json.loads(line) for line in posted.text.splitlines()]
    assert len(lines) == len(mixed)
    assert all(line["id"] if "id" in line else line["error"] for line in lines)
    customers = {line["id"] for line in lines[:CUSTOMERS]}
    env = {"TICKETMILL_BROKER_URL": broker.url, "TICKETMILL_LEDGER_URL": postgresql_ledger.url}
    env |= {"TICKETMILL_HOME": str(packaged), "TICKETMILL_WORKER_BATCH_START": "16"}
    worker = process("celery", "-A", "workers.app", "worker", env=env)

    def states() -> dict[str, int]:
        with reading(engine) as connection:
            count = sa.select(tickets.c.state, sa.func.count()).group_by(tickets.c.state)
            return dict(connection.execute(count).all())

    wait_until(lambda: not UNFINISHED & set(states()), 240, why=lambda: str(states()))
    with reading(engine) as connection:
        answered = dict(
            connection.execute(
                sa.select(tickets.c.id, answers.c.document).join(answers, answers.c.ticket_id == tickets.c.id)
            ).all()
        )
        jobs = dict(connection.execute(sa.select(tickets.c.id, tickets.c.job)).all())
        assert connection.execute(sa.select(sa.func.count()).select_from(strays)).scalar() == 0
    # The gate may hold a string that is meant to break things, or turn it away with a reason; never a customer.
    assert customers <= set(answered)
    assert set(states()) <= {"answered", "in_review", "rejected"}
    assert states()["answered"] == len(answered) > len(mixed) * 3 // 4
    schema = SHIPPED_JOBS["triage"].answer_schema or {}
    labels: set[str] = set()
    for ticket_id, document in answered.items():
        answer = json.loads(document)
        if jobs[ticket_id] == "triage":
            jsonschema.validate(json.loads(answer["text"]), schema)
            labels.add(answer["data"]["category"])
        else:
            assert answer["text"]
    assert len(labels) >= 3
    worker.terminate()
    assert worker.wait(60) == 0
