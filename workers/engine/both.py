"""Models of this machine and of others in one engine: each ticket goes where its job's model is."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from workers.engine.remote.engine import RemoteEngine
from workers.policy.reclaim import Reclaim
from workers.ports import Completed, DeviceLost, Engine, Failed, Load, StepFailed, Work

logger = logging.getLogger(__name__)


class BothEngines:
    """See `workers.ports.Engine`.

    Args:
        remote_models: names under ``models`` that are others'.
    """

    def __init__(self, local: Engine, remote: RemoteEngine, remote_models: frozenset[str]) -> None:
        self._local = local
        self._remote = remote
        self._remote_models = remote_models
        self._here: set[str] = set()

    @property
    def model(self) -> str:
        """Name of the default model."""
        return self._remote.model if "default" in self._remote_models else self._local.model

    @property
    def running(self) -> int:
        """Slots in use."""
        return self._local.running + self._remote.running

    def add(self, work: Work) -> None:
        """See `workers.ports.Engine`."""
        if work.job.model in self._remote_models:
            self._remote.add(work)
        else:
            self._here.add(work.ticket.id)
            self._local.add(work)

    def step(self) -> list[Completed | Failed]:
        """See `workers.ports.Engine`. What is asked of others never waits for what is computed here, nor the other way
        round.

        Raises:
            StepFailed: what is computed here failed as a whole; what is asked of others goes on.
        """
        if not self._local.running:
            return self._remote.step()
        try:
            ended = self._local.step()
        except DeviceLost:
            raise
        except Exception as error:
            # Raised below, once the traceback no longer holds on to the device's memory.
            logger.exception("what is computed here failed as a whole: %d tickets", len(self._here))
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
            failure = StepFailed(frozenset(self._here), isinstance(error, MemoryError), why)
        else:
            self._here -= {each.ticket_id for each in ended}
            return ended + self._remote.collect(0)
        self._here.clear()
        raise failure

    def drop(self, ticket_ids: Sequence[str]) -> None:
        """See `workers.ports.Engine`."""
        self._here.difference_update(ticket_ids)
        self._local.drop(ticket_ids)
        self._remote.drop(ticket_ids)

    def load(self) -> Load:
        """See `workers.ports.Engine`: the device of what is computed here, and tokens of both."""
        here, there = self._local.load(), self._remote.load()
        return Load(
            memory_used_bytes=here.memory_used_bytes,
            memory_total_bytes=here.memory_total_bytes,
            prompt_tokens=here.prompt_tokens + there.prompt_tokens,
            reused_tokens=here.reused_tokens + there.reused_tokens,
            slot_steps=here.slot_steps + there.slot_steps,
            useful_slot_steps=here.useful_slot_steps + there.useful_slot_steps,
            kv_tokens=here.kv_tokens,
            fragmentation=here.fragmentation,
            device=here.device,
            utilization=here.utilization,
        )

    def reclaim(self, step: Reclaim) -> int:
        """See `workers.ports.Engine`."""
        return self._local.reclaim(step)

    def close(self) -> None:
        """See `workers.ports.Engine`."""
        self._remote.close()
        self._local.close()
