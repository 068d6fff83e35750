"""Fixtures for workers under test."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger


@pytest.fixture
def rig(broker: Broker, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path) -> Generator[Rig]:
    """On every broker, over SQLite."""
    rig = Rig(broker.url, sqlite_ledger, process, tmp_path)
    yield rig
    rig.close()
