"""The engine that computes on this machine: a running batch for every model that jobs name."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import clear_frames

import torch

from schemas.job import Job, KVCache
from schemas.model import ModelSettings
from workers.engine.batch import RunningBatch
from workers.engine.cache.schemes import room_for
from workers.engine.canary import served_schemes
from workers.engine.memory import Memory, give_back, host_memory, resident_bytes
from workers.engine.models.loading import Model, load_model
from workers.engine.runner import Runner
from workers.engine.threads import choose_threads
from workers.policy.reclaim import Reclaim
from workers.ports import Completed, DeviceLost, Failed, Load, Work

_KV_SHARE = {"cpu": 0.25, "cuda": 0.8}
"""Part of the free memory that keys and values may take. A CPU's is shared with everything else on the machine."""

_STEP_TOKENS = {"cpu": 256, "cuda": 2048}
"""Tokens a step may compute: where more of them make a step longer without making it more efficient."""


class LocalEngine:
    """See `workers.ports.Engine`.

    Args:
        models: all are loaded.
        jobs: those that name one of them.

    Raises:
        ModelRefused: a model that cannot serve.
        SettingRefused: a job that cannot be used with its model.
    """

    def __init__(self, models: Mapping[str, ModelSettings], jobs: Mapping[str, Job], home: Path) -> None:
        loaded = {name: load_model(models[name], home) for name in sorted(models)}
        first = loaded.get("default") or next(iter(loaded.values()))
        choose_threads(models["default" if "default" in loaded else next(iter(loaded))].threads, first)
        self._name, self._device = first.name, first.device
        asked = {job.kv_cache for job in jobs.values()} | {KVCache.FULL}
        self._served = {
            (name, scheme): serving
            for name, model in loaded.items()
            for scheme, serving in served_schemes(model, asked).items()
        }
        pairs = sorted({(name, serving) for (name, _), serving in self._served.items()})
        self._batches = {pair: running_batch(loaded[pair[0]], len(pairs), pair[1]) for pair in pairs}
        for name, job in jobs.items():
            self._batch_of(job).prepare(name, job)

    @property
    def model(self) -> str:
        """Name of the default model."""
        return self._name

    @property
    def running(self) -> int:
        """Slots in use."""
        return sum(batch.running for batch in self._batches.values())

    def add(self, work: Work) -> None:
        """See `workers.ports.Engine`."""
        self._batch_of(work.job).add(work)

    def step(self) -> list[Completed | Failed]:
        """See `workers.ports.Engine`.

        Raises:
            MemoryError: the device has not enough.
            DeviceLost: it asserted, and every later call to it would fail.
        """
        try:
            return [each for batch in self._batches.values() if batch.running for each in batch.step()]
        except Exception as error:  # noqa: BLE001 - handed on below, once its frames no longer hold tensors
            failure = error
        clear_frames(failure.__traceback__)
        if "device-side assert" in str(failure):
            raise DeviceLost(" ".join(str(failure).split())[:300])
        for batch in self._batches.values():
            batch.clear()
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        if isinstance(failure, torch.OutOfMemoryError) or "can't allocate memory" in str(failure):
            raise MemoryError(str(failure).splitlines()[0])
        raise failure

    def drop(self, ticket_ids: Sequence[str]) -> None:
        """See `workers.ports.Engine`."""
        for batch in self._batches.values():
            batch.drop(frozenset(ticket_ids))

    def load(self) -> Load:
        """See `workers.ports.Engine`."""
        memory = self._memory()
        counters = [batch.counters for batch in self._batches.values()]
        return Load(
            memory_used_bytes=memory.used_bytes,
            memory_total_bytes=memory.total_bytes,
            prompt_tokens=sum(each.prompt_tokens for each in counters),
            reused_tokens=sum(each.reused_tokens for each in counters),
            slot_steps=sum(each.slot_steps for each in counters),
            useful_slot_steps=sum(each.useful_slot_steps for each in counters),
            kv_tokens=min(batch.kv_tokens for batch in self._batches.values()),
            fragmentation=self._fragmentation(),
            device=self._device.type,
            utilization=self._utilization(),
        )

    def reclaim(self, step: Reclaim) -> int:
        """See `workers.ports.Engine`."""
        before = self._held()
        if step is Reclaim.PREFIXES:
            for batch in self._batches.values():
                batch.drop_idle()
        if step is Reclaim.GARBAGE:
            gc.collect()
        if step is Reclaim.CACHE:
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
            else:
                give_back()
        return max(0, before - self._held())

    def _held(self) -> int:
        return torch.cuda.memory_reserved(self._device) if self._device.type == "cuda" else resident_bytes()

    def _fragmentation(self) -> float:
        if self._device.type != "cuda":
            return 0.0
        found = torch.cuda.memory_stats(self._device)
        reserved = found.get("reserved_bytes.all.current", 0)
        return found.get("inactive_split_bytes.all.current", 0) / reserved if reserved else 0.0

    def _utilization(self) -> float:
        if self._device.type != "cuda":
            return 0.0
        try:
            return torch.cuda.utilization(self._device) / 100
        except (ModuleNotFoundError, RuntimeError):  # the driver's library is not here, or will not say
            return 0.0

    def close(self) -> None:
        """See `workers.ports.Engine`. The engine is of no use afterwards."""
        self._batches = {}
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _batch_of(self, job: Job) -> RunningBatch:
        return self._batches[job.model, self._served[job.model, job.kv_cache]]

    def _memory(self) -> Memory:
        if self._device.type != "cuda":
            return host_memory()
        free, total = torch.cuda.mem_get_info(self._device)
        idle = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        return Memory(total - free - idle, total)  # what the allocator keeps for us in reserve is not in use


def running_batch(model: Model, batches: int, scheme: KVCache = KVCache.FULL, *, sharing: bool = True) -> RunningBatch:
    """A batch whose KV cache takes its share of the memory, as one of so many; see `RunningBatch` for ``sharing``."""
    kind = model.device.type
    free = torch.cuda.mem_get_info(model.device)[0] if kind == "cuda" else host_memory().free_bytes
    steps = _STEP_TOKENS[kind]
    budget = int(free * _KV_SHARE[kind]) // batches
    room = room_for(scheme, model.network.shape, budget, model.context, steps, model.dtype, model.device)
    fitting = model._replace(context=room.longest)
    runner = Runner(model.network, room.caches, model.dtype, model.device)
    return RunningBatch(fitting, runner, room.scheduler(steps, model.stop_ids), sharing=sharing)
