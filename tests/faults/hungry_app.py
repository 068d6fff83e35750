"""A worker whose engine really takes memory for each ticket, under a limit that the system itself keeps.

``$HUNGRY_ROWS`` tickets fit at once. The test's directory gets a line in ``steps`` for each step: the rows, whether
they fitted, and what the process holds of the machine's memory.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from workers.adapters.settings_file import read_settings
from workers.boot import make_app
from workers.engine.memory import resident_bytes
from workers.engine.noop import NoopEngine
from workers.ports import Completed, Failed

ROW_BYTES = 256_000_000
STEPS = Path(os.environ["GATE_DIRECTORY"]) / "steps"


class HungryEngine(NoopEngine):
    """Takes memory for each row while it steps."""

    def __init__(self) -> None:
        super().__init__()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = int((int(os.environ["HUNGRY_ROWS"]) + 0.5) * ROW_BYTES)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, resource.RLIM_INFINITY))

    def step(self) -> list[Completed | Failed]:
        rows = self.running
        try:
            taken = [bytearray(ROW_BYTES) for _ in range(rows)]
        except MemoryError:
            self._note(rows, "failed")
            self.drop(list(self._rows))
            raise
        del taken
        self._note(rows, "fitted")
        return super().step()

    def _note(self, rows: int, how: str) -> None:
        with STEPS.open("a", encoding="utf-8") as steps:
            steps.write(f"{rows} {how} {resident_bytes()}\n")


app = make_app(read_settings(), lambda _settings: HungryEngine())
