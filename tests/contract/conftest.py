"""Fixtures of the contract suites."""

from __future__ import annotations

import pytest

from tests.contract.desk import Desk
from tests.ground.ledgers import TestLedger


@pytest.fixture
def desk(ledger: TestLedger) -> Desk:
    """On every kind of ledger in turn."""
    return Desk(ledger)
