"""Settings as a process finds them: a YAML file and the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from schemas.errors import SettingRefused
from schemas.settings import Settings, load_settings


def read_settings(named: Path | None = None) -> Settings:
    """The settings in the file in force, with the environment's on top.

    Raises:
        SettingRefused: a file that is named and not there, that is no YAML, or holds what is no setting.
    """
    file = settings_file(named)
    return load_settings({} if file is None else read_mapping(file), os.environ)


def settings_file(named: Path | None = None) -> Path | None:
    """The one named, else ``TICKETMILL_CONFIG``, else ``ticketmill.yaml`` in the working directory if there is one."""
    if named is not None:
        return named
    if from_environment := os.environ.get("TICKETMILL_CONFIG", ""):
        return Path(from_environment)
    here = Path("ticketmill.yaml")
    return here if here.exists() else None


def read_mapping(file: Path) -> dict[str, Any]:
    """A settings file's content, not looked at yet. Raises SettingRefused where it cannot be read."""
    try:
        content: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingRefused(str(file), f"cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise SettingRefused(str(file), f"is no YAML: {' '.join(str(error).split())}") from None
    if content is not None and not isinstance(content, dict):
        raise SettingRefused(str(file), "must hold sections of settings")
    return content or {}
