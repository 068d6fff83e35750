"""A worker whose engine takes a while for each step, so that a fault meets tickets in its slots."""

from __future__ import annotations

import time

from workers.adapters.settings_file import read_settings
from workers.boot import make_app
from workers.engine.noop import NoopEngine
from workers.ports import Completed, Failed

STEP_S = 0.03


class SlowEngine(NoopEngine):
    """Computes nothing, slowly."""

    def step(self) -> list[Completed | Failed]:
        time.sleep(STEP_S)
        return super().step()


app = make_app(read_settings(), lambda _settings: SlowEngine())
