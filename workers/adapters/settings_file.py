"""Settings as this process finds them: a YAML file and the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from schemas.errors import SettingRefused
from schemas.settings import Settings, load_settings


def read_settings() -> Settings:
    """``TICKETMILL_CONFIG``, or ``ticketmill.yaml`` in the working directory if there is one, and the environment.

    Raises:
        SettingRefused: a file that is named and not there, that is no YAML, or holds what is no setting.
    """
    named = os.environ.get("TICKETMILL_CONFIG", "")
    path = Path(named or "ticketmill.yaml")
    if not named and not path.exists():
        return load_settings({}, os.environ)
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingRefused(str(path), f"cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise SettingRefused(str(path), f"is no YAML: {' '.join(str(error).split())}") from None
    if content is not None and not isinstance(content, dict):
        raise SettingRefused(str(path), "must hold sections of settings")
    return load_settings(content or {}, os.environ)
