"""Fixtures of the browser tests."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser

from ops.migrate import migrate
from schemas.ledger import open_ledger
from tests.browser.office import Office
from tests.ground.redis_server import RedisServer, redis_program
from tests.ground.serving import Serving

_tenants = itertools.count(1)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    place = tmp_path_factory.mktemp("serving")
    redis = RedisServer(redis_program(), tmp_path_factory.mktemp("redis"), keeps=False)
    redis.start()
    url = f"sqlite:///{place}/ledger.db"
    migrate(url)
    # No accepted ticket goes on its way while the tests look, and every decision is asked of somebody else too.
    settings = {"TICKETMILL_REVIEW_UNDO": "1h", "TICKETMILL_REVIEW_SECOND_OPINION": "100%"}
    serving = Serving(sys.executable, url, redis.url, place, settings)
    try:
        serving.start()
        yield serving
    finally:
        serving.close()
        redis.close()


@pytest.fixture
def office(serving: Serving, browser: Browser) -> Generator[Office]:
    engine = open_ledger(serving.ledger_url)
    office = Office(browser, serving.url, engine, f"tenant-{next(_tenants)}", [])
    yield office
    for context in office.contexts:
        context.close()
    engine.dispose()
