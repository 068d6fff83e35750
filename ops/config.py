"""What commands hand on to the processes that they start."""

from __future__ import annotations

import os
from pathlib import Path

from producer.adapters.settings_file import settings_file


def child_environment(named: Path | None) -> dict[str, str]:
    """Our environment for a process of ours, wherever it works, that shall see the same settings."""
    file = settings_file(named)
    return {**os.environ, **({} if file is None else {"TICKETMILL_CONFIG": str(file.absolute())})}
