"""``POST /v1/tickets?wait=30s``: the answer in the response, where it is there in time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import RedisServer
from tests.ground.ledgers import TestLedger
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

House = tuple[Rig, httpx.Client]


@pytest.fixture
def house(redis: RedisServer, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path) -> Generator[House]:
    rig = Rig(redis.url, sqlite_ledger, process, tmp_path)
    serving = Serving(sys.executable, sqlite_ledger.url, redis.url, tmp_path)
    serving.start()
    with serving.client(new_key(sqlite_ledger.url)) as api:
        yield rig, api
    serving.close()
    rig.close()


def post(api: httpx.Client, wait: str, **fields: str) -> httpx.Response:
    return api.post("/v1/tickets", params={"wait": wait}, json={"body": "Where is it?"} | fields)


def test_the_answer_comes_in_the_response(house: House) -> None:
    rig, api = house
    rig.worker()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda n: post(api, "30s", body=f"Question {n}"), range(24)))
    assert {reply.status_code for reply in replies} == {200}
    assert [reply.json()["answer"]["text"] for reply in replies] == [f"Question {n}" for n in range(24)]
    dead = post(api, "30s", body="fail")
    assert (dead.status_code, dead.json()["state"]) == (200, "dead")


def test_what_takes_longer_is_accepted_all_the_same(house: House) -> None:
    rig, api = house
    reply = post(api, "300ms")
    assert (reply.status_code, reply.json()["state"]) == (202, "queued")
    rig.worker()
    again: Callable[[], bool] = lambda: api.get(reply.headers["location"]).json()["state"] == "answered"  # noqa: E731 - named for what it asks
    wait_until(again, 60)


def test_a_ticket_sent_again_waits_for_its_first_answer(house: House) -> None:
    rig, api = house
    post(api, "0s", external_id="twice")
    rig.worker()
    reply = post(api, "30s", external_id="twice")
    assert (reply.status_code, reply.json()["duplicate"], reply.json()["state"]) == (200, True, "answered")


@pytest.mark.parametrize("wait", ["soon", "-1s", "61s", "2h"])
def test_no_other_wait_than_a_short_one(house: House, wait: str) -> None:
    reply = post(house[1], wait)
    assert (reply.status_code, reply.json()["error"]["field"]) == (422, "wait")


def test_many_are_not_waited_for(house: House) -> None:
    kind = {"content-type": "application/x-ndjson"}
    reply = house[1].post("/v1/tickets", params={"wait": "5s"}, content=b'{"body": "a"}\n', headers=kind)
    assert (reply.status_code, reply.json()["error"]["field"]) == (422, "wait")
