"""``ticketmill up``: everything in one place, up and down together, and back again with all it had."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.sockets import free_port
from tests.ground.process import Process
from tests.ground.waiting import wait_until

pytestmark = pytest.mark.xdist_group("up")


class Mill:
    """A home of its own, and ``ticketmill up`` in it."""

    def __init__(self, process: Callable[..., Process], home: Path) -> None:
        self.home = home
        self.port = free_port()
        self._process = process
        self.env = {"TICKETMILL_HOME": str(home), "TICKETMILL_HTTP_PORT": str(self.port)}
        self.env |= {"TICKETMILL_WORKER_ENGINE": "noop", "TICKETMILL_WORKER_LEASE": "2s"}

    def run(self, *arguments: str) -> Process:
        return self._process("ops.cli", *arguments, env=self.env)

    def up(self) -> Process:
        running = self.run("up")
        wait_until(lambda: "the worker is ready" in running.output() or not running.alive, 60)
        assert running.alive, running.output()
        return running

    def facts(self, *arguments: str) -> dict:
        done = self.run(*arguments, "--json")
        assert done.wait() == 0, done.output()
        return json.loads(done.output())

    def send(self, count: int) -> None:
        lines = "\n".join(json.dumps({"body": f"ticket {number}"}) for number in range(count))
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/tickets", data=lines.encode())
        request.add_header("Authorization", f"Bearer {(self.home / 'key').read_text().strip()}")
        request.add_header("Content-Type", "application/x-ndjson")
        with urllib.request.urlopen(request) as response:
            assert response.read().count(b'"id"') == count

    def answered(self) -> int:
        return sum(self.facts("status")["tickets"].get("answered", {}).values())


@pytest.fixture
def mill(process: Callable[..., Process], tmp_path: Path) -> Mill:
    return Mill(process, tmp_path / "home")


def _children(pid: int) -> set[int]:
    """Every process below this one."""
    found: set[int] = set()
    for task in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(task.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(task.parent.name)
            found |= {child} | _children(child)
    return found


def _named(pids: set[int], name: str) -> int:
    (found,) = (pid for pid in pids if name.encode() == Path(f"/proc/{pid}/comm").read_bytes().strip())
    return found


def _gone(pids: set[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_one_signal_stops_all_in_order_and_the_next_start_knows_its_key(mill: Mill) -> None:
    running = mill.up()
    key = (mill.home / "key").read_text().strip()
    assert key in running.output()
    assert (mill.home / "key").stat().st_mode & 0o777 == 0o600
    assert mill.home.stat().st_mode & 0o777 == 0o700
    children = _children(running.pid)
    mill.send(20)
    running.interrupt()
    assert running.wait() == 0
    assert _gone(children)
    log = running.output()
    ends = ("worker | worker: Warm shutdown", "INFO ended in good order", "Valkey is now ready to exit")
    assert sorted(ends, key=log.index) == list(ends)
    again = mill.up()
    assert key not in again.output()
    wait_until(lambda: mill.answered() == 20)


def test_killed_it_leaves_nobody_behind_and_comes_back_with_everything(mill: Mill) -> None:
    running = mill.up()
    mill.send(200)
    children = _children(running.pid)
    assert len(children) >= 6
    running.kill_alone()
    wait_until(lambda: _gone(children))
    mill.up()
    wait_until(lambda: mill.answered() == 200, 60)


def test_a_part_that_is_killed_comes_back(mill: Mill) -> None:
    running = mill.up()
    os.kill(_named(_children(running.pid), "valkey-server"), signal.SIGKILL)
    wait_until(lambda: "broker | ended by signal 9; starting it again" in running.output())
    mill.send(50)
    wait_until(lambda: mill.answered() == 50, 60)
    assert running.alive


def test_a_second_one_on_the_same_home_says_so(mill: Mill) -> None:
    mill.up()
    second = mill.run("up")
    assert second.wait() == 1
    assert "is already up (process" in second.output()
    assert len(second.output().strip().splitlines()) == 1


def test_a_taken_port_is_one_clear_line(mill: Mill) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", mill.port))
        taken.listen()
        refused = mill.run("up")
        assert refused.wait() == 1
    (line,) = refused.output().strip().splitlines()
    assert line.startswith(f"ticketmill: 127.0.0.1:{mill.port}: Address already in use")


def test_a_model_that_is_not_there_stops_it_all(mill: Mill) -> None:
    mill.env |= {"TICKETMILL_WORKER_ENGINE": "local", "TICKETMILL_MODELS_DEFAULT_PATH": str(mill.home / "none")}
    running = mill.run("up")
    assert running.wait(60) == 1
    assert "is not a directory" in running.output()
    assert "the worker ended with exit code 1" in running.output()
