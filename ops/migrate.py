"""Brings a ledger's tables to the version that this Ticketmill works with."""

from __future__ import annotations

import contextlib
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.exc import DBAPIError

from schemas.errors import LedgerUnavailable
from schemas.ledger import check_migrated, open_ledger, place


def migrate(url: str) -> None:
    """Upgrades the ledger at ``url`` to the newest version; does nothing if it is there already.

    The directory of a SQLite file is made if only that is missing, closed to others: it will hold customers' words.

    Raises:
        LedgerUnavailable: the database cannot be reached or refuses the change; nothing was changed then.
    """
    engine = open_ledger(url)
    if engine.dialect.name == "sqlite":
        with contextlib.suppress(OSError):  # SQLite says it better
            Path(str(engine.url.database)).parent.mkdir(mode=0o700, exist_ok=True)
    try:
        command.upgrade(alembic_config(url), "head")
    except DBAPIError as error:
        why = " ".join(str(error.orig).split())
        raise LedgerUnavailable(place(engine), why, "Check the address and the rights of its user") from error
    finally:
        engine.dispose()


def require_current(url: str) -> None:
    """Raises LedgerNotMigrated, saying what to run, unless the ledger is at the version this Ticketmill expects."""
    engine = open_ledger(url)
    try:
        check_migrated(engine)
    finally:
        engine.dispose()


def alembic_config(url: str) -> Config:
    """What Alembic needs to know: where the migrations lie, and the ledger's URL."""
    config = Config()
    config.set_main_option("script_location", str(_scripts()).replace("%", "%%"))
    config.attributes["url"] = url
    return config


def _scripts() -> Path:
    installed = Path(__file__).parent / "migrations"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "alembic"
