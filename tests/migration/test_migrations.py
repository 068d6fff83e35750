"""Migrations on both databases: up, down, up again, equal to ``schemas/tables.py``, and safe to run at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from ops.migrate import alembic_config, migrate, require_current
from schemas.errors import LedgerNotMigrated, LedgerUnavailable
from schemas.ledger import HEAD, open_ledger
from schemas.tables import metadata
from tests.ground.ports import free_port
from tests.ground.process import ROOT, Process


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    return request.getfixturevalue("empty_postgresql")


def tables(url: str) -> set[str]:
    engine = open_ledger(url)
    try:
        return set(sa.inspect(engine).get_table_names()) - {"alembic_version"}
    finally:
        engine.dispose()


def test_up_down_and_up_again(url: str) -> None:
    migrate(url)
    assert tables(url) == set(metadata.tables)
    command.downgrade(alembic_config(url), "base")
    assert tables(url) == set()
    migrate(url)
    assert tables(url) == set(metadata.tables)


def test_the_migrated_tables_are_those_the_code_works_with(url: str) -> None:
    migrate(url)
    command.check(alembic_config(url))


def test_migrating_again_changes_nothing(url: str) -> None:
    migrate(url)
    migrate(url)
    require_current(url)


def test_a_ledger_without_tables_says_what_to_run(url: str) -> None:
    with pytest.raises(LedgerNotMigrated, match=r"has no tables yet. Run `ticketmill migrate`"):
        require_current(url)


@pytest.mark.parametrize(
    ("version", "says"),
    [("0000", r"Run `ticketmill migrate`"), ("9999", r"Install a newer Ticketmill")],
)
def test_a_ledger_of_another_version_says_which(url: str, version: str, says: str) -> None:
    migrate(url)
    engine = open_ledger(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :version"), {"version": version})
    engine.dispose()
    with pytest.raises(LedgerNotMigrated, match=rf"at version {version} .* {HEAD}. {says}"):
        require_current(url)


def test_several_processes_may_migrate_at_once(url: str) -> None:
    code = "import sys; from ops.migrate import migrate; migrate(sys.argv[1])"
    run = [sys.executable, "-c", code, url]

    def one(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(one, range(4)))
    assert [each.stderr for each in ended if each.returncode] == []
    require_current(url)


def test_the_code_expects_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(alembic_config("sqlite:///none.db")).get_heads() == [HEAD]


def test_a_new_home_is_made_and_closed_to_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    migrate(f"sqlite:///{home / 'ledger.db'}")
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_path_that_leads_nowhere_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match=r"^ledger sqlite:///.*ledger.db: unable to open database file"):
        migrate(f"sqlite:///{tmp_path}/no/such/ledger.db")


def test_a_database_out_of_reach_is_one_clear_line() -> None:
    nowhere = f"postgresql://user:secret@127.0.0.1:{free_port()}/tickets"
    with pytest.raises(LedgerUnavailable, match=r"^ledger postgresql://user:\*\*\*@127.0.0.1.*refused") as error:
        migrate(nowhere)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_the_alembic_command_takes_its_url_from_the_settings(process: Callable[..., Process], tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    url = f"sqlite:///{tmp_path / 'by-command.db'}"
    settings.write_text(json.dumps({"ledger": {"url": url}}))
    configuration = ("-c", str(ROOT / "pyproject.toml"))
    child = process("alembic", *configuration, "upgrade", "head", env={"TICKETMILL_CONFIG": str(settings)})
    assert child.wait() == 0, child.output()
    require_current(url)
