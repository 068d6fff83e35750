"""More conversations at once than the KV budget holds at full length: all are answered, as if there were room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.job import Job, KVCache
from schemas.model import ModelSettings
from tests.integration.engine.conftest import ticket
from workers.engine.batch import RunningBatch
from workers.engine.cache.schemes import room_for
from workers.engine.models.loading import Model, load_model
from workers.engine.runner import Runner
from workers.ports import Completed, Work

SYSTEM = "You answer customers."
LONGEST = 160
LENGTHS = [6, LONGEST, 40, LONGEST]
"""Tokens of answers, after ``SHORT`` ones so brief that few blocks are reserved for each that follows."""

SHORT = 24

ROW_BYTES = 3 * 2 * 2 * 16 * 4 * (LONGEST + 96)
"""Of a long prompt and answer in full, in the model of these tests."""


def test_four_times_as_many_as_fit_answer_as_if_there_were_room(model_of_kind: Callable[[str], Path]) -> None:
    model, load = _model(model_of_kind("llama")), _load(256, KVCache.FULL)
    tight = _batch(model, KVCache.FULL, ROW_BYTES * 64)
    texts = _answered(tight, load[:SHORT]) | _answered(tight, load[SHORT:])
    assert tight.preempted > 0
    assert texts == _answered(_batch(model, KVCache.FULL, ROW_BYTES * 1024), load)
    assert tight.counters.reused_tokens < tight.counters.prompt_tokens


@pytest.mark.parametrize(("scheme", "rows"), [(KVCache.INT4, 8), (KVCache.SPARSE, 8)])
def test_compressed_rows_give_way_as_well(scheme: KVCache, rows: int, model_of_kind: Callable[[str], Path]) -> None:
    tight = _batch(_model(model_of_kind("llama")), scheme, ROW_BYTES * rows)
    load = _load(64, scheme)
    assert len(_answered(tight, load[:SHORT]) | _answered(tight, load[SHORT:])) == len(load)


def _model(directory: Path) -> Model:
    loaded = load_model(ModelSettings(path=str(directory), dtype="float32", device="cpu"), directory)
    return loaded._replace(stop_ids=frozenset())


def _load(count: int, scheme: KVCache) -> list[Work]:
    lengths = [4] * SHORT + [LENGTHS[at % len(LENGTHS)] for at in range(count - SHORT)]
    return [
        Work(
            ticket=ticket(str(at), f"Where is card {at}? " * (1 + at % 4), "reply"),
            job=Job(system=SYSTEM, max_new_tokens=length, kv_cache=scheme),
        )
        for at, length in enumerate(lengths)
    ]


def _batch(model: Model, scheme: KVCache, budget_bytes: int) -> RunningBatch:
    room = room_for(scheme, model.network.shape, budget_bytes, 512, 4096, model.dtype, model.device)
    runner = Runner(model.network, room.caches, model.dtype, model.device)
    return RunningBatch(model._replace(context=room.longest), runner, room.scheduler(4096, ()))


def _answered(batch: RunningBatch, load: list[Work]) -> dict[str, str]:
    """All at once."""
    for work in load:
        batch.add(work)
    texts: dict[str, str] = {}
    while batch.running:
        for each in batch.step():
            assert isinstance(each, Completed)
            texts[each.ticket_id] = each.answer.text
    assert len(texts) == len(load)
    return texts
