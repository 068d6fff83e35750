"""No child outlives us, however we end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

from ops.component import Component
from tests.ground.process import Process
from tests.ground.waiting import wait_until

PARENT = """
import os, sys, time
from ops.component import Component
Component("child", [sys.executable, "-c", sys.argv[1]], os.environ, lambda name, line: print(line, flush=True))
time.sleep(600)
"""
CHILD = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + CHILD
WITH_CHILD_OF_ITS_OWN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]).wait()"


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _child_of(process: Process) -> int:
    return int(wait_until(lambda: process.output().strip().splitlines()[-1:])[0])


def _parent(tmp_path: Path, child: str) -> Process:
    root = str(Path(__file__).parents[2])
    return Process([sys.executable, "-c", PARENT, child], log=tmp_path / "log", env={**os.environ, "PYTHONPATH": root})


def test_a_child_ends_when_we_are_killed(tmp_path: Path) -> None:
    parent = _parent(tmp_path, CHILD)
    child = _child_of(parent)
    assert _lives(child)
    parent.kill_alone()
    wait_until(lambda: not _lives(child))


def test_a_child_that_will_not_hear_is_killed(tmp_path: Path) -> None:
    parent = _parent(tmp_path, STUBBORN)
    child = _child_of(parent)
    parent.kill_alone()
    wait_until(lambda: not _lives(child))


def test_a_child_ends_when_what_holds_it_is_killed() -> None:
    lines: list[str] = []
    component = Component("child", [sys.executable, "-c", STUBBORN], os.environ, lambda _, line: lines.append(line))
    child = int(wait_until(lambda: lines)[0])
    psutil.Process(child).parent().kill()  # type: ignore[union-attr]  # it has one
    assert component.wait() == -9
    wait_until(lambda: not _lives(child))


def test_stop_lets_a_child_finish_and_kills_what_it_left_behind() -> None:
    lines: list[str] = []
    command = [sys.executable, "-c", WITH_CHILD_OF_ITS_OWN, CHILD]
    component = Component("child", command, os.environ, lambda _, line: lines.append(line))
    wait_until(lambda: lines)
    grandchild = int(lines[0])
    component.tell_to_stop(30)
    assert component.wait() == 128 + 15
    wait_until(lambda: not _lives(grandchild))


def test_a_child_that_takes_too_long_is_killed() -> None:
    lines: list[str] = []
    component = Component("child", [sys.executable, "-c", STUBBORN], os.environ, lambda _, line: lines.append(line))
    wait_until(lambda: lines)
    component.tell_to_stop(0.1)
    assert component.wait() == 128 + 9


def test_a_long_line_is_cut_and_bad_bytes_are_shown() -> None:
    lines: list[str] = []
    writer = "import sys; sys.stdout.buffer.write(b'x' * 100_000 + b'\\n\\xff\\n')"
    component = Component("child", [sys.executable, "-c", writer], os.environ, lambda _, line: lines.append(line))
    assert component.wait() == 0
    assert "".join(lines[:-1]) == "x" * 100_000
    assert lines[-1] == "\ufffd"
