"""Flower tells of tickets that were settled before it started."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from ops.sockets import free_port
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.redis_server import RedisServer
from tests.ground.waiting import wait_until
from tests.ops.conftest import Desk


def _tasks(port: int, password: str) -> dict[str, dict[str, str]]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/tasks")
    request.add_header("Authorization", "Basic " + base64.b64encode(password.encode()).decode())
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def test_settled_tickets_are_listed_under_their_own_ids(
    process: Callable[..., Process], sqlite_ledger: TestLedger, redis: RedisServer
) -> None:
    desk = Desk(sqlite_ledger)
    answered = [desk.answered() for _ in range(3)]
    dead = desk.dead("its prompt is longer than the model reads")
    port = free_port()
    env = {"TICKETMILL_BROKER_URL": redis.url, "TICKETMILL_LEDGER_URL": sqlite_ledger.url}
    env |= {"TICKETMILL_FLOWER_PORT": str(port), "TICKETMILL_FLOWER_BASIC_AUTH": "ops:secret"}
    running = process("ops.cli", "flower", env=env)
    wait_until(lambda: "Flower is at" in running.output() or not running.alive, 60)
    assert running.alive, running.output()
    states = {ticket_id: task["state"] for ticket_id, task in _tasks(port, "ops:secret").items()}
    assert states == dict.fromkeys(answered, "SUCCESS") | {dead: "FAILURE"}
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        _tasks(port, "ops:wrong")
    refused.value.close()
    assert "secret" not in running.output()


def test_beyond_this_machine_it_demands_a_password(process: Callable[..., Process], sqlite_ledger: TestLedger) -> None:
    env = {"TICKETMILL_LEDGER_URL": sqlite_ledger.url, "TICKETMILL_FLOWER_HOST": "0.0.0.0"}
    refused = process("ops.cli", "flower", env=env)
    assert refused.wait(60) == 2
    (line,) = refused.output().strip().splitlines()
    assert line.startswith("ticketmill: flower.basic_auth: is needed")
