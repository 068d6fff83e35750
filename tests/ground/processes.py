"""Fixture: programs of ours, run as a user runs them and ended by their pid."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import pytest

from tests.ground.process import ROOT, Process

_STARTED = pytest.StashKey[list[Process]]()


@pytest.fixture(scope="session")
def ticketmill_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs of this whole run keep what they keep: never a person's own ``~/.ticketmill``."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    home = shared / "ticketmill-home"
    home.mkdir(exist_ok=True)
    return home


@pytest.fixture
def process(request: pytest.FixtureRequest, tmp_path: Path, ticketmill_home: Path) -> Generator[Callable[..., Process]]:
    """``process("celery", "-A", "workers.app", "worker", env={...})`` runs ``python -m celery -A ...``.

    It sees none of our own ``TICKETMILL_`` settings, only those in ``env``; it works in the test's own directory, so
    that no ``ticketmill.yaml`` is found by chance. What it wrote is shown where the test fails.
    """
    started = request.node.stash.setdefault(_STARTED, [])

    def start(module: str, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Process:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TICKETMILL_")}
        clean |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TICKETMILL_HOME": str(ticketmill_home)}
        child = Process(
            [sys.executable, "-m", module, *arguments],
            log=tmp_path / f"{module}-{len(started)}.log",
            env=clean | dict(env or {}),
            cwd=tmp_path,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows what the programs of a failed test wrote."""
    report = yield
    if report.failed:
        for child in item.stash.get(_STARTED, []):
            report.sections.append((f"log of {child}", child.output(4000)))
    return report
