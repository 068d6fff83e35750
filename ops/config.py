"""The one place where ``ops`` reads ``ticketmill.yaml`` and the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from schemas.errors import LedgerNotMigrated, SettingRefused
from schemas.ledger import check_migrated, open_ledger, place
from schemas.settings import Settings, load_settings

DEFAULT_FILE = "ticketmill.yaml"


def config_file(named: Path | None) -> Path | None:
    """The settings file in force: the one named, ``TICKETMILL_CONFIG``, or ``ticketmill.yaml`` here if there is one."""
    if named is not None:
        return named
    if from_environment := os.environ.get("TICKETMILL_CONFIG"):
        return Path(from_environment)
    here = Path(DEFAULT_FILE)
    return here if here.exists() else None


def read_settings(named: Path | None = None) -> Settings:
    """Settings from the file in force with the environment on top.

    Raises:
        SettingRefused: the file cannot be read or is no YAML mapping, or a setting in it cannot be used.
    """
    file = config_file(named)
    return load_settings({} if file is None else read_mapping(file), os.environ)


def read_mapping(file: Path) -> dict[str, Any]:
    """A YAML file's content, which must be a mapping."""
    import yaml

    try:
        content: object = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingRefused(str(file), f"cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingRefused(str(file), f"is no YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingRefused(str(file), "must hold settings as `name: value` lines")
    return {str(name): value for name, value in content.items()}


def open_migrated(url: str) -> Engine:
    """The ledger at ``url``, once it is known to be there and of our version; a SQLite file is never made by looking.

    Raises:
        LedgerUnavailable: it cannot be reached.
        LedgerNotMigrated: it is not there yet, or of another version; says what to run.
    """
    ledger = open_ledger(url)
    if ledger.dialect.name == "sqlite" and not Path(str(ledger.url.database)).exists():
        raise LedgerNotMigrated(place(ledger), "is not there yet", "Run `ticketmill up`, or `ticketmill migrate`")
    check_migrated(ledger)
    return ledger


def child_environment(named: Path | None, **extra: str) -> dict[str, str]:
    """Our environment for a process of ours that shall see the same settings."""
    file = config_file(named)
    return {**os.environ, **({} if file is None else {"TICKETMILL_CONFIG": str(file.absolute())}), **extra}
