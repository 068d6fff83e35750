"""A worker whose device reports what the test's directory says: a file ``gpu`` with its memory and utilisation shares.

``$GATE_DIRECTORY/reclaimed`` gets a line for each step of reclaiming. Answers say which device made them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from schemas.answer import Answer
from workers.adapters.settings_file import read_settings
from workers.boot import make_app
from workers.engine.noop import NoopEngine
from workers.policy.reclaim import Reclaim
from workers.ports import Completed, Failed, Load

DIRECTORY = Path(os.environ["GATE_DIRECTORY"])
STEP_S = 0.02


class FedEngine(NoopEngine):
    """See the module."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device

    def step(self) -> list[Completed | Failed]:
        time.sleep(STEP_S)
        return [
            Completed(ticket_id=each.ticket_id, answer=Answer(text="", model=self._device)) for each in super().step()
        ]

    def load(self) -> Load:
        load = super().load()
        if self._device == "cpu":
            return load
        memory, utilization = map(float, (DIRECTORY / "gpu").read_text().split())
        return msgspec.structs.replace(
            load,
            device=self._device,
            memory_used_bytes=int(memory * 10**9),
            memory_total_bytes=10**9,
            utilization=utilization,
        )

    def reclaim(self, step: Reclaim) -> int:
        with (DIRECTORY / "reclaimed").open("a", encoding="utf-8") as reclaimed:
            reclaimed.write(f"{step}\n")
        return 0


app = make_app(
    read_settings(), lambda settings: FedEngine("cpu" if settings.models["default"].device == "cpu" else "cuda")
)
