"""An engine that answers at once with nothing computed: what the drain costs by itself."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.answer import Answer
from workers.engine.memory import host_memory
from workers.policy.reclaim import Reclaim
from workers.ports import Completed, Failed, Load, Work

_NOTHING = Answer(text="", model="noop")


class NoopEngine:
    """Ends every row in the step after it was added."""

    model = "noop"

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._answered = 0

    @property
    def running(self) -> int:
        """Slots in use."""
        return len(self._rows)

    def add(self, work: Work) -> None:
        """Takes a ticket; there is no limit to how many."""
        self._rows.append(work.ticket.id)

    def step(self) -> list[Completed | Failed]:
        """Answers all that it holds with an empty text."""
        rows, self._rows = self._rows, []
        self._answered += len(rows)
        return [Completed(ticket_id=row, answer=_NOTHING) for row in rows]

    def drop(self, ticket_ids: Sequence[str]) -> None:
        """Forgets rows."""
        gone = frozenset(ticket_ids)
        self._rows = [row for row in self._rows if row not in gone]

    def load(self) -> Load:
        """The machine's memory; a slot step for every answer, all of them useful."""
        memory = host_memory()
        return Load(
            memory_used_bytes=memory.used_bytes,
            memory_total_bytes=memory.total_bytes,
            prompt_tokens=0,
            reused_tokens=0,
            slot_steps=self._answered,
            useful_slot_steps=self._answered,
        )

    def reclaim(self, step: Reclaim) -> int:  # noqa: ARG002 - named as in the port
        """Nothing: it holds no memory to speak of."""
        return 0

    def close(self) -> None:
        """Forgets everything."""
        self._rows = []
