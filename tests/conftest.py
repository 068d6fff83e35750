"""Fixtures for every test: see docs/testing.md."""

from __future__ import annotations

import os

from hypothesis import settings

# A machine under load is slow, not wrong. In CI the same code meets the same examples every time.
settings.register_profile("ticketmill", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("ticketmill")

pytest_plugins = [
    "tests.ground.brokers",
    "tests.ground.browser",
    "tests.ground.ledgers",
    "tests.ground.processes",
    "tests.ground.real_model",
    "tests.ground.real_text",
]
