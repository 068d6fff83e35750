"""Makes answers: slots, prompts, the KV cache and the model. ``open_engine`` is the way in."""

from __future__ import annotations

from pathlib import Path

from schemas.settings import Settings
from workers.ports import Engine


def open_engine(settings: Settings) -> Engine:
    """The engine that ``worker.engine`` names, its models loaded.

    Raises:
        ModelRefused: a model that cannot serve, with what to do.
        SettingRefused: a job whose answer schema no grammar can be made of.
    """
    if settings.worker.engine == "noop":
        from workers.engine.noop import NoopEngine

        return NoopEngine()
    from workers.engine.local import LocalEngine

    return LocalEngine(settings.models, settings.all_jobs(), Path(settings.home).expanduser())
