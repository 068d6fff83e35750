"""Migrations on both databases: up, down, up again, equal to ``schemas/tables.py``, and safe to run at once."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from ops.migrate import alembic_config, configured_url, migrate, require_current
from schemas.errors import LedgerNotMigrated, LedgerUnavailable, SettingRefused
from schemas.ledger import HEAD, open_ledger
from schemas.tables import metadata
from tests.ground.ports import free_port
from tests.ground.process import ROOT


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


def test_the_alembic_command_takes_its_url_from_the_settings(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'by-command.db'}"
    done = subprocess.run(
        [sys.executable, "-m", "alembic", "upgrade", "head"],
        cwd=ROOT,
        env={**os.environ, "TICKETMILL_LEDGER_URL": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    require_current(url)


class TestWhereTheUrlComesFrom:
    @pytest.fixture(autouse=True)
    def _nothing_set(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in os.environ:
            if name.startswith("TICKETMILL_"):
                monkeypatch.delenv(name)
        monkeypatch.chdir(tmp_path)

    def test_a_file_beside_us(self) -> None:
        Path("ticketmill.yaml").write_text("ledger: {url: 'sqlite:///from-file.db'}")
        assert configured_url() == "sqlite:///from-file.db"

    def test_a_file_that_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("other.yaml").write_text("ledger: {url: 'sqlite:///from-other.db'}")
        monkeypatch.setenv("TICKETMILL_CONFIG", "other.yaml")
        assert configured_url() == "sqlite:///from-other.db"

    def test_the_environment_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("ticketmill.yaml").write_text("ledger: {url: 'sqlite:///from-file.db'}")
        monkeypatch.setenv("TICKETMILL_LEDGER_URL", "sqlite:///from-environment.db")
        assert configured_url() == "sqlite:///from-environment.db"

    def test_else_the_embedded_one_under_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TICKETMILL_HOME", "/somewhere")
        assert configured_url() == "sqlite:////somewhere/ledger.db"

    @pytest.mark.parametrize("content", ["ledger: [", "- a\n- b", "ledger: {url: \xff}"])
    def test_a_broken_file_is_named(self, content: str) -> None:
        Path("ticketmill.yaml").write_bytes(content.encode("latin-1"))
        with pytest.raises(SettingRefused, match=r"^ticketmill.yaml: "):
            configured_url()
