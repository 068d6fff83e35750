"""The only file of this room that reads a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time of day, for what is stored."""
    return datetime.now(UTC)


def monotonic_s() -> float:
    """Seconds since some fixed moment, for waits."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Does nothing for so long."""
    time.sleep(seconds)
