"""A row's older tokens as small whole numbers; its latest ones in full, and its first ones in eight bits if need be.

A block is coded once it is full and ``WINDOW`` tokens newer than it are there. Until then it lies open, as the model
made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from workers.engine.cache.codes import Codes
from workers.engine.cache.full import FullCache
from workers.engine.networks import KVShape
from workers.engine.scheduler import BLOCK, FreeBlocks

WINDOW = 32
"""Latest tokens of a row that are always kept in full."""

_SINK_BITS = 8
"""The first block is attended by every later token; in so many bits it is as good as in full."""

OPEN, CODED, SINK = range(3)


class Found(NamedTuple):
    """Blocks by the way they lie: which of the asked ones each kind's are, and their numbers within the kind."""

    blocks: int
    kinds: list[tuple[int, Tensor, Tensor]]


class QuantizedCache:
    """See `Cache`.

    Args:
        blocks: of rows, coded.
        open_blocks: that can lie open at a time: at most two a row, and those being written in a step.
        sinks: whether the first block of a row is kept in eight bits.
    """

    def __init__(
        self,
        shape: KVShape,
        blocks: int,
        open_blocks: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        bits: int,
        group: int,
        sinks: bool = False,
    ) -> None:
        self._shape, self._dtype, self._device = shape, dtype, device
        self._full = FullCache(shape, open_blocks, dtype, device)
        self._free_open = FreeBlocks(open_blocks)
        self._codes = [Codes(shape, blocks, bits, group, device) for _ in range(shape.layers)]
        self._first = [
            Codes(shape, open_blocks, _SINK_BITS, BLOCK, device) for _ in range(shape.layers if sinks else 0)
        ]
        self._free_sinks = FreeBlocks(open_blocks)
        self._open: dict[int, int] = {}
        self._sunk: dict[int, int] = {}

    def bytes_for(self, tokens: int) -> int:
        """See `Cache`."""
        coded = _coded(tokens)
        codes = coded * self._codes[0].block_bytes
        if self._first and coded:
            codes += self._first[0].block_bytes - self._codes[0].block_bytes
        return self._full.bytes_for(tokens - coded * BLOCK) + self._shape.layers * codes

    @property
    def coded_block_bytes(self) -> int:
        """What a coded block takes, all layers together."""
        return self._shape.layers * self._codes[0].block_bytes

    def slots(self, at: Sequence[int]) -> Tensor:
        """Opens the blocks that are written to."""
        for block in sorted({each // BLOCK for each in at} - self._open.keys()):
            self._open[block] = self._free_open.take(1)[0]
        return self._full.slots([self._open[each // BLOCK] * BLOCK + each % BLOCK for each in at])

    def places(self, blocks: Sequence[int]) -> Found:
        """See `Cache`."""
        kinds: dict[int, tuple[list[int], list[int]]] = {}
        for at, block in enumerate(blocks):
            kind, number = self._lies(block)
            asked, numbers = kinds.setdefault(kind, ([], []))
            asked.append(at)
            numbers.append(number)
        tensors = [
            (kind, torch.tensor(asked, device=self._device), torch.tensor(numbers, device=self._device))
            for kind, (asked, numbers) in kinds.items()
        ]
        return Found(len(blocks), tensors)

    def write(self, layer: int, pairs: Tensor, slots: Tensor) -> None:
        """See `Cache`."""
        self._full.write(layer, pairs, slots)

    def read(self, layer: int, places: Found) -> tuple[Tensor, Tensor]:
        """See `Cache`."""
        if len(places.kinds) == 1:
            kind, _, numbers = places.kinds[0]
            whole = self._fetch(layer, kind, numbers)
        else:
            size = (places.blocks, BLOCK, 2 * self._shape.kv_heads, self._shape.head_size)
            whole = torch.empty(size, dtype=self._dtype, device=self._device)
            for kind, asked, numbers in places.kinds:
                whole.index_copy_(0, asked, self._fetch(layer, kind, numbers))
        keys, values = whole.flatten(0, 1).chunk(2, dim=1)
        return keys, values

    def settle(self, blocks: Sequence[int], tokens: int) -> None:
        """See `Cache`."""
        closing = [(at, block) for at, block in enumerate(blocks[: _coded(tokens)]) if block in self._open]
        sunk = [block for at, block in closing if self._first and at == 0]
        self._sunk |= zip(sunk, self._free_sinks.take(len(sunk)), strict=True)
        coded = [block for at, block in closing if not self._first or at]
        self._code(self._first, sunk, [self._sunk[block] for block in sunk])
        self._code(self._codes, coded, coded)

    def release(self, blocks: Sequence[int], *, wipe: bool = False) -> None:
        """See `Cache`."""
        for block in blocks if wipe else ():
            kind, number = self._lies(block)
            if kind == OPEN:
                self._full.release([number], wipe=True)
            else:
                for codes in self._codes if kind == CODED else self._first:
                    codes.wipe(torch.tensor([number], device=self._device))
        self._free_open.give([self._open.pop(block) for block in blocks if block in self._open])
        self._free_sinks.give([self._sunk.pop(block) for block in blocks if block in self._sunk])

    def _lies(self, block: int) -> tuple[int, int]:
        if block in self._open:
            return OPEN, self._open[block]
        return (SINK, self._sunk[block]) if block in self._sunk else (CODED, block)

    def _fetch(self, layer: int, kind: int, numbers: Tensor) -> Tensor:
        if kind == OPEN:
            return self._full.fetch(layer, numbers)
        return (self._codes if kind == CODED else self._first)[layer].fetch(numbers, self._dtype)

    def _code(self, codes: list[Codes], blocks: list[int], numbers: list[int]) -> None:
        """Closes open blocks."""
        if not blocks:
            return
        opened = [self._open.pop(block) for block in blocks]
        where, to = (torch.tensor(each, device=self._device) for each in (opened, numbers))
        for layer, each in enumerate(codes):
            each.keep(to, self._full.fetch(layer, where))
        self._free_open.give(opened)


def _coded(tokens: int) -> int:
    """How many blocks of a row of so many tokens are coded: those with ``WINDOW`` tokens after them."""
    return max(0, (tokens - WINDOW) // BLOCK)
