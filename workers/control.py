"""What ``celery control`` may ask of our workers, where Celery's own answer would be wrong."""

from __future__ import annotations

from typing import Any

from celery.worker.control import control_command as _untyped
from celery.worker.control import nok

SLOTS = (
    "the number of slots follows memory and latency, not the pool: set worker.batch.cap and start the worker again, "
    "or start another worker"
)

_control_command: Any = _untyped


def register() -> None:
    """Puts our answers in the place of Celery's."""
    number = [("n", int)]
    _control_command(name="pool_grow", args=number, signature="[N=1]")(_refuse_growing)
    _control_command(name="pool_shrink", args=number, signature="[N=1]")(_refuse_growing)
    _control_command(name="autoscale", args=[("max", int), ("min", int)], signature="[max [min]]")(_refuse_growing)


def _refuse_growing(_state: object, *_: object, **__: object) -> Any:
    return nok(SLOTS)
