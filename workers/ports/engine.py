"""What the drain needs of engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from schemas.answer import Answer
from schemas.job import Job
from schemas.ticket import Ticket
from workers.policy.reclaim import Reclaim
from workers.policy.retry import Told


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket and what is wanted of it, on its way into a slot."""

    ticket: Ticket
    job: Job


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """A row that ended with an answer. Batch id and size are filled in by the drain."""

    ticket_id: str
    answer: Answer


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A row that ended without one, while its neighbours went on.

    Attributes:
        error: its row in the retry matrix.
        why: one line for the ticket's history.
        told: what an upstream said of coming back.
    """

    ticket_id: str
    error: str
    why: str
    told: Told = Told()


class DeviceLost(Exception):
    """The device will not compute again in this process: only a new one can use it."""


class StepFailed(Exception):
    """A step failed as a whole for some rows, while others go on.

    Args:
        lost: tickets that the engine no longer holds.
        out_of_memory: the device had too little memory.
        why: one line.
    """

    def __init__(self, lost: frozenset[str], out_of_memory: bool, why: str) -> None:
        super().__init__(why)
        self.lost = lost
        self.out_of_memory = out_of_memory


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine holds now. Shares are 0 to 1; ``memory_share`` is of the device the engine computes on.

    Attributes:
        kv_tokens: tokens that the KV cache of its smallest model has room for, beside what is shared; 0 if it has none.
        fragmentation: share of what the allocator holds that it can give to nobody.
        device: what it computes on: ``cpu``, or a device with memory of its own.
        utilization: share of the device's time that it computes; 0 where that is not known.
    """

    memory_used_bytes: int
    memory_total_bytes: int
    prompt_tokens: int
    reused_tokens: int
    slot_steps: int
    useful_slot_steps: int
    kv_tokens: int = 0
    fragmentation: float = 0.0
    device: str = "cpu"
    utilization: float = 0.0

    @property
    def memory_share(self) -> float:
        """Part of the device's memory in use."""
        return self.memory_used_bytes / self.memory_total_bytes


class Engine(Protocol):
    """Makes answers. Everything is called by the engine thread alone.

    A step that raises has failed as a whole: the engine then holds no rows and no device memory of theirs, but for a
    StepFailed, which says whose. The caller decides who runs again, and with whom. After a DeviceLost nobody runs
    here any more.
    """

    @property
    def model(self) -> str:
        """Name of the model that answers."""
        ...

    @property
    def running(self) -> int:
        """Slots in use."""
        ...

    def add(self, work: Work) -> None:
        """Takes a ticket into a slot; its prefill is part of the next step. Never raises for what a ticket says."""
        ...

    def step(self) -> list[Completed | Failed]:
        """Goes on to the next token boundary; returns the rows that ended there, their slots free again."""
        ...

    def drop(self, ticket_ids: Sequence[str]) -> None:
        """Forgets rows at this token boundary, without an answer."""
        ...

    def load(self) -> Load:
        """What it holds, measured now; counters since it was made."""
        ...

    def reclaim(self, step: Reclaim) -> int:
        """Frees what this step frees of the engine's memory; returns how many bytes."""
        ...

    def close(self) -> None:
        """Frees the model and the device's memory."""
        ...
