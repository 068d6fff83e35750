"""Brings a ledger's tables to the version that this Ticketmill works with."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import yaml
from alembic import command
from alembic.config import Config
from sqlalchemy.exc import DBAPIError

from schemas.errors import LedgerUnavailable, SettingRefused
from schemas.ledger import check_migrated, open_ledger, place
from schemas.settings import load_settings


def migrate(url: str) -> None:
    """Upgrades the ledger at ``url`` to the newest version; does nothing if it is there already.

    The directory of a SQLite file is made if only that is missing, closed to other users: it will hold customers' words.

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


def configured_url() -> str:
    """The ledger's URL as ``TICKETMILL_CONFIG`` (or ``ticketmill.yaml`` here) and the environment give it."""
    path = Path(os.environ.get("TICKETMILL_CONFIG", "ticketmill.yaml"))
    return load_settings(_file(path), os.environ).ledger.url


def _file(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeError) as error:
        raise SettingRefused(str(path), f"is no YAML: {' '.join(str(error).split())}") from None
    if content is not None and not isinstance(content, dict):
        raise SettingRefused(str(path), "must hold sections of settings")
    return content or {}


def _scripts() -> Path:
    installed = Path(__file__).parent / "migrations"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "alembic"
