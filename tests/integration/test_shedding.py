"""The door while its machine is busy, or while there is more in the queues than can be worked off."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from producer.adapters.clock import utc_now
from schemas.breaker import closed
from schemas.breakers import change_breaker, read_breakers
from schemas.ledger import reading, writing
from schemas.tables import attempts
from tests.contract.tickets import NOON, put
from tests.ground.brokers import RedisServer
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

Settings = dict[str, str]


@pytest.fixture
def door(
    request: pytest.FixtureRequest, redis: RedisServer, sqlite_ledger: TestLedger, tmp_path: Path
) -> Generator[httpx.Client]:
    serving = Serving(sys.executable, sqlite_ledger.url, redis.url, tmp_path, request.param)
    serving.start()
    with serving.client(new_key(sqlite_ledger.url)) as api:
        yield api
    serving.close()


def post(api: httpx.Client, priority: str) -> httpx.Response:
    return api.post("/v1/tickets", json={"body": "Where is it?", "priority": priority})


@pytest.mark.parametrize(
    "door",
    [{"TICKETMILL_CIRCUIT_BREAKER_CPU_THRESHOLD": "60", "TICKETMILL_CIRCUIT_BREAKER_CPU_DURATION": "2s"}],
    indirect=True,
)
def test_a_busy_processor_turns_away_the_least_urgent_first_and_lets_them_in_by_hand(
    door: httpx.Client, sqlite_ledger: TestLedger, tmp_path: Path
) -> None:
    assert post(door, "low").status_code == 202
    burners = [Process([sys.executable, "-c", "while True: pass"], log=tmp_path / f"burner-{n}.log") for n in range(4)]
    try:
        wait_until(lambda: post(door, "backfill").status_code == 503, 60)
        refused = post(door, "low")
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert "low tickets are turned away: the processor was" in refused.json()["error"]["message"]
        lines = b'{"body": "a", "priority": "low"}\n{"body": "b", "priority": "urgent"}\n'
        many = door.post("/v1/tickets", content=lines, headers={"content-type": "application/x-ndjson"})
        first, second = many.text.splitlines()
        assert '"retry_after_s"' in first
        assert '"state":"queued"' in second
        with reading(sqlite_ledger.engine) as connection:
            (breaker,) = read_breakers(connection).values()
        assert (breaker.name.partition(":")[0], breaker.mode) == ("cpu", "open")
        with writing(sqlite_ledger.engine) as connection:
            change_breaker(connection, breaker.name, utc_now(), lambda known: closed(known, utc_now()))
        wait_until(lambda: post(door, "low").status_code == 202)
    finally:
        for each in burners:
            each.kill()


@pytest.mark.parametrize("door", [{"TICKETMILL_SHEDDING_LOW": "60s"}], indirect=True)
def test_a_ticket_that_would_wait_too_long_is_told_when_to_come_back(
    door: httpx.Client, sqlite_ledger: TestLedger
) -> None:
    put(sqlite_ledger.engine, 4000)

    def worked_off() -> bool:
        row = {"ticket_id": "x", "start": 1, "started_at": NOON, "ended_at": NOON, "worker": "w", "batch": ""}
        rows = [row | {"batch_size": 1, "outcome": "answered", "error": ""}] * 5
        with writing(sqlite_ledger.engine) as connection:
            connection.execute(sa.insert(attempts), rows)
        return post(door, "low").status_code == 503

    wait_until(worked_off, 30)
    refused = post(door, "low")
    assert "low tickets would wait about" in refused.json()["error"]["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 3600
    assert post(door, "urgent").status_code == 202
