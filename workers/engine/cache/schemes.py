"""Schemes by name: which cache each is, and how a budget is divided between rows, prefixes and what lies open."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch

from schemas.job import KVCache
from workers.engine.cache.full import FullCache
from workers.engine.cache.quantized import QuantizedCache
from workers.engine.layout import Caches
from workers.engine.networks import KVShape
from workers.engine.pruning import RECENT, SINKS
from workers.engine.scheduler import BLOCK, Scheduler, blocks_for

KEEP = 0.3
"""Share of a prompt that ``sparse`` keeps."""

_MOST_ROWS = 64
"""Rows at full context that blocks are ever made for: more slots than any device is given."""


class Coding(NamedTuple):
    """Bits a number, channels of a value that share a scale, and whether the first block is kept in eight bits."""

    bits: int
    group: int
    sinks: bool


CODINGS = {
    KVCache.INT8: Coding(8, 64, False),
    KVCache.INT4: Coding(4, 32, False),
    KVCache.INT3: Coding(3, 64, True),
}


class Room(NamedTuple):
    """What a budget has room for.

    Attributes:
        longest: prompt and answer together, in tokens, that can be admitted at all.
    """

    scheme: KVCache
    caches: Caches
    blocks: int
    longest: int
    prefix_blocks: int | None = None
    most_rows: int | None = None

    def scheduler(self, step_tokens: int, stop: Collection[int]) -> Scheduler:
        """One that gives out these blocks."""
        return Scheduler(
            self.blocks,
            step_tokens,
            stop,
            prefix_blocks=self.prefix_blocks,
            keep=KEEP if self.scheme is KVCache.SPARSE else 1.0,
            least_kept=SINKS + RECENT,
            most_rows=self.most_rows,
        )


def room_for(
    scheme: KVCache,
    shape: KVShape,
    budget_bytes: int,
    context: int,
    step_tokens: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Room:
    """Caches of one scheme for one model. A prefix is kept in full whatever the scheme."""
    most = _MOST_ROWS * blocks_for(context)
    block_bytes = shape.layers * 2 * shape.kv_heads * shape.head_size * dtype.itemsize * BLOCK
    if scheme in (KVCache.FULL, KVCache.SPARSE):
        blocks = max(1, min(budget_bytes // block_bytes, most))
        # A row and its prefix end in a block each that is not full: two blocks less is the longest row there can be.
        cache = FullCache(shape, blocks, dtype, device)
        return Room(scheme, Caches(cache, cache), blocks, min(context, (blocks - 2) * BLOCK))
    quarter = budget_bytes // 4
    prefix_blocks = max(1, min(quarter // block_bytes, most))
    prefixes = FullCache(shape, prefix_blocks, dtype, device)
    if scheme is KVCache.FP16:
        half_bytes = block_bytes // dtype.itemsize * 2
        blocks = max(1, min((budget_bytes - quarter) // half_bytes, most))
        halves = FullCache(shape, blocks, dtype, device, torch.float16)
        longest = min(context, (min(blocks, prefix_blocks) - 1) * BLOCK)
        return Room(scheme, Caches(halves, prefixes), blocks, longest, prefix_blocks)
    step_blocks = blocks_for(step_tokens) + 1
    most_rows = max(1, min(_MOST_ROWS, (quarter // block_bytes - step_blocks) // _OPEN_PER_ROW))
    open_blocks = most_rows * _OPEN_PER_ROW + step_blocks
    bits, group, sinks = CODINGS[scheme]
    one = QuantizedCache(shape, 1, 1, dtype, device, bits=bits, group=group, sinks=sinks)
    blocks = max(1, min((budget_bytes - 2 * quarter) // one.coded_block_bytes, most))
    coded = QuantizedCache(shape, blocks, open_blocks, dtype, device, bits=bits, group=group, sinks=sinks)
    longest = min(context, (min(blocks, prefix_blocks) - 1) * BLOCK)
    return Room(scheme, Caches(coded, prefixes), blocks, longest, prefix_blocks, most_rows)


_OPEN_PER_ROW = 3
"""Blocks of a row that can be open: two within the window, and one that a step begins."""
