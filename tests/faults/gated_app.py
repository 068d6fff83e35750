"""A worker whose engine does what a ticket's text says, for tests that need a batch to hold still or to go wrong.

``wait`` stays in its slot until the test writes a byte for it; ``raise`` makes the step fail as a whole, ``fail`` fails
alone; ``kill`` ends the process; ``assert`` loses the device, the first time; anything else is
answered at once with itself.

The test's directory, ``$GATE_DIRECTORY``, holds a pipe ``gate`` (a byte ends one waiting ticket) and a file
``seen`` (a line for each ticket that enters a slot: batch, as it stood in the slots).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from schemas.answer import Answer
from workers.adapters.settings_file import read_settings
from workers.boot import make_app
from workers.policy.reclaim import Reclaim
from workers.ports import Completed, DeviceLost, Failed, Load, Work

DIRECTORY = Path(os.environ["GATE_DIRECTORY"])


class GatedEngine:
    """See the module."""

    model = "gated"

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}
        # Opened for both ends, so that opening does not wait and an absent writer is no end of file.
        self._gate = os.open(DIRECTORY / "gate", os.O_RDWR)

    @property
    def running(self) -> int:
        return len(self._rows)

    def add(self, work: Work) -> None:
        self._rows[work.ticket.id] = work.ticket.body
        with (DIRECTORY / "seen").open("a", encoding="utf-8") as seen:
            seen.write(f"{work.ticket.id} {work.ticket.body}\n")

    def step(self) -> list[Completed | Failed]:
        bodies = list(self._rows.values())
        if "kill" in bodies:
            os.kill(os.getpid(), signal.SIGKILL)
        if "assert" in bodies and not (DIRECTORY / "asserted").exists():
            (DIRECTORY / "asserted").touch()
            raise DeviceLost("CUDA error: device-side assert triggered")
        if "raise" in bodies:
            self._rows.clear()
            raise RuntimeError("a ticket that no batch survives")
        ended = [ticket_id for ticket_id, body in self._rows.items() if body != "wait"]
        if not ended:
            os.read(self._gate, 1)
            ended = list(self._rows)[:1]
        return [self._end(ticket_id) for ticket_id in ended]

    def drop(self, ticket_ids: Sequence[str]) -> None:
        for ticket_id in ticket_ids:
            self._rows.pop(ticket_id, None)

    def load(self) -> Load:
        return Load(
            memory_used_bytes=1,
            memory_total_bytes=100 * 10**9,
            prompt_tokens=0,
            reused_tokens=0,
            slot_steps=0,
            useful_slot_steps=0,
        )

    def reclaim(self, _step: Reclaim) -> int:
        return 0

    def close(self) -> None:
        self._rows.clear()

    def _end(self, ticket_id: str) -> Completed | Failed:
        body = self._rows.pop(ticket_id)
        if body == "fail":
            return Failed(ticket_id=ticket_id, error="context_overflow", why="9 tokens over the context")
        return Completed(ticket_id=ticket_id, answer=Answer(text=body, model=self.model))


app = make_app(read_settings(), lambda _settings: GatedEngine())
