"""A worker whose model is refused."""

from __future__ import annotations

from schemas.errors import ModelRefused
from schemas.settings import Settings
from workers.adapters.settings_file import read_settings
from workers.boot import make_app
from workers.ports import Engine


def _refuse(_settings: Settings) -> Engine:
    raise ModelRefused("m", "is of no use", "Take another")


app = make_app(read_settings(), _refuse)
