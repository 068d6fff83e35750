"""What a step of the engine costs: a line through what steps of the real engine took, or through steps taken before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

PREFIX = 300
"""Tokens of the shared system prompt."""

BATCHES = ((1, 32), (1, 320), (2, 32), (4, 32), (4, 320), (8, 32), (8, 320), (16, 32), (16, 160), (32, 32))
"""Rows, and tokens of their own prompts."""

REPEATS = 5

MOST_NEW = 128
"""More than the first row answers while the last one's prompt is computed."""


if TYPE_CHECKING:
    from workers.engine.runner import Runner
    from workers.engine.scheduler import Scheduler


class Step(NamedTuple):
    """One step: tokens computed for rows that are answering, KV tokens that these read, prompt tokens computed."""

    rows: int
    context: int
    prompt: int
    seconds: float


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a step takes, as a sum of what is fixed and what each part of it adds.

    Attributes:
        row_s: for each row that is answering.
        context_s: for each token of their own, after the shared prefix, that these rows read.
        prompt_s: for each token of a prompt.
        error: median distance of the line from the steps it was drawn through, as a share of them.
    """

    fixed_s: float
    row_s: float
    context_s: float
    prompt_s: float
    kv_bytes_per_token: int
    error: float
    source: str

    def step_s(self, rows: int, context: int, prompt: int) -> float:
        """Seconds for a step."""
        return self.fixed_s + self.row_s * rows + self.context_s * context + self.prompt_s * prompt


COMMITTED = Cost(
    fixed_s=0.0385,
    row_s=0.00102,
    context_s=1e-05,
    prompt_s=0.000385,
    kv_bytes_per_token=23_040,
    error=0.074,
    source="SmolLM2-135M-Instruct in bfloat16 on one thread of a virtual Xeon with AMX, 134 steps of up to 32 rows",
)
"""Taken by `cost_of_this_machine` where it was written; for machines without torch or without the model."""


def cost_of_this_machine(home: Path) -> tuple[Cost, str]:
    """The cost of the packaged model's steps here; why it is the committed one, where it is that."""
    if find_spec("torch") is None:
        return COMMITTED, "steps of this machine: torch is not installed; the committed cost model stands for it"
    from workers.engine.models.packaged import NAME, gguf_file

    if gguf_file() is None and not list(home.glob(f"models/{NAME}-*")):
        return COMMITTED, "steps of this machine: the packaged model is not installed; the committed cost model stands"
    steps, kv_bytes = _measured(home)
    return fitted(steps, kv_bytes, "steps of the packaged model on one thread of this machine"), ""


def fitted(steps: list[Step], kv_bytes_per_token: int, source: str) -> Cost:
    """The line with the least relative error; nothing makes a step shorter, so no part of it is negative."""
    taken = np.array([step.seconds for step in steps])
    parts = np.array([[1.0, step.rows, step.context, step.prompt] for step in steps])
    kept = [0, 1, 2, 3]
    while True:
        weights = np.linalg.lstsq(parts[:, kept] / taken[:, None], np.ones(len(steps)), rcond=None)[0]
        if (weights >= 0).all():
            break
        kept.pop(int(weights.argmin()))
    line = np.zeros(4)
    line[kept] = weights
    error = float(np.median(np.abs(parts @ line / taken - 1)))
    fixed_s, row_s, context_s, prompt_s = (float(f"{each:.3g}") for each in line)
    return Cost(
        fixed_s=fixed_s,
        row_s=row_s,
        context_s=context_s,
        prompt_s=prompt_s,
        kv_bytes_per_token=kv_bytes_per_token,
        error=round(error, 3),
        source=source,
    )


def _measured(home: Path) -> tuple[list[Step], int]:
    """Steps of up to 32 rows over short and long contexts, and prompts of several lengths.

    Processor time of one thread: what else runs here is not the engine's cost.
    """
    import torch

    from schemas.model import ModelSettings
    from workers.engine.cache.full import FullCache
    from workers.engine.layout import Caches
    from workers.engine.models.loading import load_model
    from workers.engine.runner import Runner
    from workers.engine.scheduler import Scheduler

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = load_model(ModelSettings(device="cpu"), home)
        cache = FullCache(model.network.shape, 1024, model.dtype, model.device)
        runner = Runner(model.network, Caches(cache, cache), model.dtype, model.device)
        scheduler = Scheduler(1024, 256, ())
        list(_steps(runner, scheduler, 4, 32))  # to warm up
        steps = [step for rows, own in BATCHES for step in _steps(runner, scheduler, rows, own)]
        return steps, cache.bytes_for(1)
    finally:
        torch.set_num_threads(threads)


def _steps(runner: Runner, scheduler: Scheduler, rows: int, own: int) -> Iterator[Step]:
    """So many rows with prompts of ``own`` tokens: each step of their prompts, and the median of some that answer."""
    from workers.engine.scheduler import Row

    prefix = tuple(range(100, 100 + PREFIX))
    made = [scheduler.add(prefix, range(500, 500 + own), MOST_NEW) for _ in range(rows)]
    answering: list[Step] = []
    while len(answering) < REPEATS:
        chunks = scheduler.plan()
        decoding = [chunk for chunk in chunks if isinstance(chunk.of, Row) and chunk.of.computed >= chunk.of.prompt]
        context = sum(chunk.of.computed for chunk in decoding)
        prompt = sum(chunk.count for chunk in chunks) - len(decoding)
        began_s = time.thread_time()
        picked = runner.run(chunks, {}, {})
        seconds = time.thread_time() - began_s
        scheduler.ran(chunks)
        for row, token in picked:
            scheduler.extend(row, [token or 0])
        step = Step(len(decoding), context, prompt, seconds)
        if prompt:
            yield step
        else:
            answering.append(step)
    yield answering[REPEATS // 2]._replace(seconds=median(step.seconds for step in answering))
    for row in made:
        scheduler.remove(row)
    scheduler.drop_idle_prefixes()
