"""Fixtures for every test: see docs/testing.md."""

from __future__ import annotations

pytest_plugins = [
    "tests.ground.brokers",
    "tests.ground.ledgers",
    "tests.ground.processes",
    "tests.ground.real_text",
]
