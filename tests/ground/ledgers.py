"""Fixtures: ledgers, empty and migrated, on every database that is supported."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from ops.migrate import migrate
from schemas.ledger import open_ledger
from tests.ground.postgres_server import PostgresServer, postgres_program

_numbers = itertools.count(1)


@dataclass(frozen=True)
class TestLedger:
    """An empty ledger.

    Attributes:
        url: for other processes.
        engine: for this one.
        server: the PostgreSQL below, which a test may kill and start again; None on SQLite.
    """

    __test__ = False

    url: str
    engine: Engine
    server: PostgresServer | None = None


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty ledger to be copied."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_ledger(migrated_sqlite: Path, tmp_path: Path) -> Generator[TestLedger]:
    """A SQLite file of its own."""
    path = tmp_path / "ledger.db"
    shutil.copyfile(migrated_sqlite, path)
    yield from _opened(f"sqlite:///{path}", None)


@pytest.fixture(scope="session")
def postgresql_server() -> Generator[PostgresServer]:
    """This test worker's PostgreSQL with an empty ledger to be copied; ask for ``postgresql_ledger`` instead."""
    server = PostgresServer(postgres_program())
    try:
        server.start()
        server.run("CREATE DATABASE migrated")
        migrate(server.database_url("migrated"))
        yield server
    finally:
        server.close()


@pytest.fixture
def empty_postgresql(postgresql_server: PostgresServer) -> Generator[str]:
    """The URL of an empty database of its own, without tables."""
    yield from _database(postgresql_server, "template1")


@pytest.fixture
def postgresql_url(postgresql_server: PostgresServer) -> Generator[str]:
    """The URL of an empty ledger of its own."""
    yield from _database(postgresql_server, "migrated")


@pytest.fixture
def postgresql_ledger(postgresql_server: PostgresServer, postgresql_url: str) -> Generator[TestLedger]:
    """A PostgreSQL database of its own."""
    yield from _opened(postgresql_url, postgresql_server)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest) -> TestLedger:
    """Every kind of ledger in turn, each made only for the tests that get it."""
    return request.getfixturevalue(f"{request.param}_ledger")


def _database(server: PostgresServer, template: str) -> Generator[str]:
    server.bring_back()
    name = f"test_{next(_numbers)}"
    server.run(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield server.database_url(name)
    server.bring_back()
    server.run(f"DROP DATABASE {name} WITH (FORCE)")


def _opened(url: str, server: PostgresServer | None) -> Generator[TestLedger]:
    engine = open_ledger(url)
    yield TestLedger(url=url, engine=engine, server=server)
    engine.dispose()
