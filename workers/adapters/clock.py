"""The only place of this room that reads clocks."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time as it is stored: aware, UTC."""
    return datetime.now(UTC)


def monotonic_s() -> float:
    """Seconds that only grow, for waits and for how long things took."""
    return time.monotonic()
