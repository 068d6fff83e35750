"""Waiting for something to become true, with a deadline and a reason."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float = 20.0, why: Callable[[], str] | str = "") -> T:
    """Asks ``condition`` until it gives something true, and returns that.

    Args:
        seconds: generous: a machine under load is no failure.
        why: what to say besides when it never came true (called then, if it can be: a log's tail, a state).

    Raises:
        AssertionError: it did not come true in time; names the condition.
    """
    deadline = time.monotonic() + seconds
    pause_s = 0.002
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            detail = why() if callable(why) else why
            raise AssertionError(f"not true within {seconds:g} s: {_words(condition)} (last: {result!r}) {detail}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.1)


def _words(condition: Callable[[], object]) -> str:
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return repr(condition)
