"""Our engine's way through a load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ops.bench.report import BenchFailed
from ops.bench.tickets import lengths_of
from workers.engine.batch import RunningBatch
from workers.engine.local import running_batch
from workers.engine.models.loading import Model
from workers.engine.prompts import Prompts
from workers.ports import Completed, Work


class Shares(NamedTuple):
    """What share of slots was of use, and what share of prompt tokens was computed before."""

    useful_slots: float
    reused_prompt: float


def endless(model: Model) -> RunningBatch:
    """A batch that has computed nothing yet, and in which no token ends an answer."""
    return running_batch(model._replace(stop_ids=frozenset()), 1)


def answered(batch: RunningBatch, load: Sequence[Work], slots: int) -> Shares:
    """Answers all of them, refilling each slot at once.

    Raises:
        BenchFailed: the answers are not as long as they should be.
    """
    counters = batch.counters
    before = counters.useful_slot_steps, counters.slot_steps, counters.reused_tokens, counters.prompt_tokens
    coming, made = list(reversed(load)), 0
    while coming or batch.running:
        while coming and batch.running < slots:
            batch.add(coming.pop())
        for each in batch.step():
            made += each.answer.usage.completion_tokens if isinstance(each, Completed) else 0
    if made != sum(lengths_of(load)):
        raise BenchFailed(f"the engine made {made} tokens, not {sum(lengths_of(load))}")
    after = counters.useful_slot_steps, counters.slot_steps, counters.reused_tokens, counters.prompt_tokens
    useful, steps, reused, prompt = (now - then for now, then in zip(after, before, strict=True))
    return Shares(round(useful / steps, 4), round(reused / prompt, 4))


def prompts_of(model: Model, load: Sequence[Work]) -> list[list[int]]:
    """The tokens that the engine makes of each ticket, for others to answer."""
    prompts = Prompts(model.tokenizer, model.context)
    made = [prompts.of_job("bench", work.job).of(work.ticket) for work in load]
    return [[*each.prefix, *each.tokens] for each in made]
