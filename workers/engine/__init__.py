"""Makes answers: slots, prompts, the KV cache and the model. ``open_engine`` is the way in."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from schemas.model import ModelSettings
from schemas.settings import Settings
from workers.ports import Engine


def open_engine(settings: Settings, utc_now: Callable[[], datetime]) -> Engine:
    """The engine that ``worker.engine`` names, its models loaded.

    Args:
        utc_now: reads the clock, for upstreams that name a date.

    Raises:
        ModelRefused: a model that cannot serve, with what to do.
        SettingRefused: a job whose answer schema no grammar can be made of.
    """
    if settings.worker.engine == "noop":
        from workers.engine.noop import NoopEngine

        return NoopEngine()
    used = settings.used_models()
    remote = {name: model for name, model in used.items() if model.base_url}
    here = {name: model for name, model in used.items() if not model.base_url}
    if not remote:
        return _local(settings, here)
    from workers.engine.remote.engine import RemoteEngine

    if not here:
        return RemoteEngine(remote, os.environ, utc_now)
    from workers.engine.both import BothEngines

    asking = RemoteEngine(remote, os.environ, utc_now)  # first: it is refused at once, and loads nothing
    return BothEngines(_local(settings, here), asking, frozenset(remote))


def _local(settings: Settings, models: dict[str, ModelSettings]) -> Engine:
    if conf := settings.allocator.conf():
        os.environ.setdefault("PYTORCH_ALLOC_CONF", conf)  # read once, when torch is imported below
    from workers.engine.local import LocalEngine

    jobs = {name: job for name, job in settings.all_jobs().items() if job.model in models}
    return LocalEngine(models, jobs, Path(settings.home).expanduser())
