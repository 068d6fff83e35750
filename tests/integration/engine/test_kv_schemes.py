"""Every scheme of the KV cache: what it takes, what it gives back, and rows that come and go in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from schemas.job import Job, KVCache
from tests.integration.engine.conftest import answered, opened, ticket
from workers.engine.cache import Cache
from workers.engine.cache.codes import Codes
from workers.engine.cache.quantized import WINDOW, QuantizedCache
from workers.engine.cache.schemes import CODINGS, room_for
from workers.engine.networks import KVShape
from workers.engine.pruning import RECENT, SINKS, most_attended
from workers.engine.scheduler import BLOCK, blocks_for
from workers.ports import Completed

CPU = torch.device("cpu")
SHAPE = KVShape(2, 2, 64)
PACKAGED = KVShape(30, 3, 64)
BODIES = ["Where is my card? ", "x", "我的卡在哪里？\n\n", "The same again and again. ", "Zahlung {body} 🙂"]


@pytest.mark.parametrize(("scheme", "saved"), [("int8", 0.45), ("int4", 0.65), ("int3", 0.72)])
def test_a_long_row_takes_less_than_in_sixteen_bits(scheme: str, saved: float) -> None:
    rows = room_for(KVCache(scheme), PACKAGED, 2**30, 2048, 256, torch.bfloat16, CPU).caches.rows
    halves = room_for(KVCache.FP16, PACKAGED, 2**30, 2048, 256, torch.bfloat16, CPU).caches.rows
    assert rows.bytes_for(1500) <= (1 - saved) * halves.bytes_for(1500)


@pytest.mark.parametrize(("bits", "group"), [(8, 64), (4, 32), (3, 64)])
def test_a_coded_block_comes_back_within_half_a_step(bits: int, group: int) -> None:
    torch.manual_seed(1)
    codes = Codes(SHAPE, 5, bits, group, CPU)
    blocks = torch.randn(2, BLOCK, 4, 64) * torch.logspace(-2, 1, 64)
    numbers = torch.tensor([3, 1])
    codes.keep(numbers, blocks)
    found = codes.fetch(numbers, torch.float32)
    keys, values = blocks.chunk(2, dim=2)
    key_step = (keys.amax(1, keepdim=True) - keys.amin(1, keepdim=True)).expand_as(keys)
    grouped = values.unflatten(-1, (-1, group))
    value_step = (grouped.amax(-1, keepdim=True) - grouped.amin(-1, keepdim=True)).expand_as(grouped).flatten(-2)
    step = torch.cat((key_step, value_step), dim=2) / (2**bits - 1)
    slack = 2.05 if bits == 8 else 1.05  # eight bits have no offset, so half their range may lie idle
    assert ((found - blocks).abs() <= step / 2 * slack + 2e-3).all()


@pytest.mark.parametrize("scheme", CODINGS)
def test_the_latest_tokens_of_a_row_are_kept_in_full(scheme: KVCache) -> None:
    cache = _quantized(scheme, blocks=8, open_blocks=8)
    written = _row(cache, list(range(8)), 200, chunk=40)
    keys, values = cache.read(0, cache.places(list(range(7))))
    found = torch.cat((keys, values), dim=1)[:200]
    torch.testing.assert_close(found[-WINDOW:], written[-WINDOW:], rtol=0, atol=0)
    assert not torch.equal(found[:BLOCK], written[:BLOCK])
    first, later = ((found[at] - written[at]).abs().mean() for at in (slice(BLOCK), slice(BLOCK, 2 * BLOCK)))
    if CODINGS[scheme].sinks:
        assert first < later / 4


@pytest.mark.parametrize("scheme", CODINGS)
def test_rows_that_leave_give_all_back_and_leave_nothing_behind(scheme: KVCache) -> None:
    cache = _quantized(scheme, blocks=12, open_blocks=9)
    for turn in range(5):
        for blocks in ([0, 1, 2, 3], [4, 7, 5], [6, 8]):
            _row(cache, blocks, len(blocks) * BLOCK - turn, chunk=64)
        poisoned = cache.slots([6 * BLOCK])
        cache.write(0, torch.full((1, 4, 64), float("nan")), poisoned)
        for blocks in ([4, 7, 5], [6, 8], [0, 1, 2, 3]):
            cache.release(blocks, wipe=True)
    keys, values = cache.read(0, cache.places(list(range(12))))
    assert keys.isfinite().all()
    assert values.isfinite().all()


def test_attention_decides_what_sparse_keeps() -> None:
    torch.manual_seed(1)
    keys = torch.randn(300, 2, 16) * 0.1
    wanted = torch.randn(16)
    keys[117, 1] = wanted
    queries = (wanted * 4).expand(40, 6, 16)
    chosen = most_attended(queries, keys, 90, 1.0)
    assert chosen.shape == (2, 90)
    for head in chosen.tolist():
        assert head == sorted(set(head))
        assert set(range(SINKS)) | set(range(300 - RECENT, 300)) <= set(head)
    assert 117 in chosen[1].tolist()


@pytest.mark.parametrize("scheme", KVCache)
@pytest.mark.parametrize("kind", ["llama", "gpt_neox"])
def test_rows_come_and_go_in_every_scheme_as_if_alone(
    scheme: KVCache,
    kind: str,
    model_of_kind: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("workers.engine.local._STEP_TOKENS", {"cpu": 8192})  # a prompt is one chunk, in company too
    jobs = {
        "reply": Job(system="You answer customers. " * 9, max_new_tokens=60, kv_cache=scheme),
        "short": Job(system="Be brief.", max_new_tokens=5, kv_cache=scheme),
        "plain": Job(system="Be brief.", max_new_tokens=7),
    }
    tickets = [
        ticket(f"{job}-{at}-{times}", body * times, job)
        for times in (1, 9)
        for at, body in enumerate(BODIES)
        for job in jobs
    ]
    directory = model_of_kind(kind)
    together = answered(opened(directory, jobs, directory), tickets, jobs, slots=7)
    alone = answered(opened(directory, jobs, directory), tickets, jobs, slots=1)
    texts = {key: each.answer.text for key, each in together.items() if isinstance(each, Completed)}
    assert texts == {key: each.answer.text for key, each in alone.items() if isinstance(each, Completed)}
    assert len(texts) == len(tickets)
    assert "refused" not in caplog.text


def _quantized(scheme: KVCache, blocks: int, open_blocks: int) -> QuantizedCache:
    bits, group, sinks = CODINGS[scheme]
    return QuantizedCache(SHAPE, blocks, open_blocks, torch.float32, CPU, bits=bits, group=group, sinks=sinks)


def _row(cache: Cache, blocks: list[int], tokens: int, chunk: int) -> torch.Tensor:
    """Writes a row of random pairs, some tokens at a time; returns layer 0's."""
    torch.manual_seed(1)
    pairs = torch.randn(tokens, 4, 64)
    for first in range(0, tokens, chunk):
        end = min(tokens, first + chunk)
        slots = cache.slots([blocks[at // BLOCK] * BLOCK + at % BLOCK for at in range(first, end)])
        for layer in range(SHAPE.layers):
            cache.write(layer, pairs[first:end], slots)
        cache.settle(blocks[: blocks_for(end)], end)
    return pairs
