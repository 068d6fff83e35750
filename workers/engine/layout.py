"""How the tokens of a step lie: one after the other, rows of a job together, rows of like size side by side.

So the products of the network see no padding at all, a job's prefix is attended once for all its rows, and only the
attention to the rows' own blocks is padded, to the largest of a group of rows that are much alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from workers.engine.attention import attention, merged
from workers.engine.cache import Cache, Places
from workers.engine.pruning import most_attended
from workers.engine.scheduler import BLOCK, Chunk, Prefix, blocks_for


class Layout:
    """A step's tokens, where their keys and values go in the cache, and what each of them may see.

    Attributes:
        tokens, positions: of all chunks, then padding, [n].
        picking: the chunks after which a next token is picked; ``wanted`` has the index of the last token of each.
    """

    def __init__(self, chunks: Iterable[Chunk], caches: Caches, dtype: torch.dtype, device: torch.device) -> None:
        self._caches = caches
        self._writes: list[tuple[Cache, slice, Tensor]] = []
        self._shared: list[_Shared] = []
        self._tails: list[_Tails] = []
        self._pruned: list[_Pruned] = []
        tokens: list[int] = []
        positions: list[int] = []
        ends: list[int] = []
        self.picking: list[Chunk] = []
        for prefix, chunks_of_job in _by_prefix(chunks):
            offset = len(prefix.tokens) if prefix else 0
            start = len(tokens)
            cache = caches.rows if prefix else caches.prefixes
            alike = sorted(chunks_of_job, key=_size)
            slots = cache.slots([slot for chunk in alike for slot in _slots(chunk)])
            self._writes.append((cache, slice(start, start + len(slots)), slots))
            for _, same in groupby(alike, key=_size):
                group = list(same)
                self._tails.append(_tails(group, len(tokens), cache, dtype, device))
                for chunk in group:
                    first, end = chunk.of.computed, chunk.of.computed + chunk.count
                    tokens += chunk.of.tokens[first:end]
                    positions += range(offset + first, offset + end)
                    if chunk.picks:
                        self.picking.append(chunk)
                        ends.append(len(tokens) - 1)
                    if drops := chunk.drops:
                        self._pruned.append(_pruned(chunk, len(tokens), drops, cache))
            if prefix and prefix.tokens:
                at = slice(start, len(tokens))
                self._shared.append(_Shared(at, caches.prefixes.places(prefix.blocks), offset))
        self._padding = [0] * (_rounded(len(tokens)) - len(tokens))
        self.tokens = torch.tensor(tokens + self._padding, device=device)
        self.positions = torch.tensor(positions + self._padding, device=device)
        self.wanted = torch.tensor(ends, dtype=torch.long, device=device)

    def attend(self, layer: int, queries: Tensor, pairs: Tensor, scale: float) -> Tensor:
        """See `networks.Attend`."""
        for cache, at, slots in self._writes:
            cache.write(layer, pairs[at], slots)
        parts = [_own(layer, tails, queries[tails.at], scale) for tails in self._tails]
        seen, totals = parts[0] if len(parts) == 1 else (torch.cat(each) for each in zip(*parts, strict=True))
        for shared in self._shared:
            keys, values = self._caches.prefixes.read(layer, shared.blocks)
            asked, keys, values = (
                part.unsqueeze(0).transpose(1, 2)
                for part in (queries[shared.at], keys[: shared.length], values[: shared.length])
            )
            other, other_totals = attention(asked, keys, values, scale)
            other, other_totals = other[0].transpose(0, 1), other_totals[0].transpose(0, 1)
            seen[shared.at] = merged(other, other_totals, seen[shared.at], totals[shared.at])
        for pruned in self._pruned:
            self._prune(layer, pruned, queries[pruned.at], scale)
        return functional.pad(seen.flatten(1), (0, 0, 0, len(self._padding))) if self._padding else seen.flatten(1)

    def _prune(self, layer: int, pruned: _Pruned, queries: Tensor, scale: float) -> None:
        """Moves what a row keeps of its prompt to the front of its blocks."""
        pairs = [part[: pruned.tokens] for part in self._caches.rows.read(layer, pruned.blocks)]
        chosen = most_attended(queries, pairs[0], len(pruned.slots), scale)[..., None].expand(-1, -1, queries.shape[-1])
        kept = [part.transpose(0, 1).gather(1, chosen).transpose(0, 1) for part in pairs]
        self._caches.rows.write(layer, torch.cat(kept, dim=1), pruned.slots)


class Caches(NamedTuple):
    """Where rows lie, and where prefixes do, which are never compressed; the same cache where rows are not either."""

    rows: Cache
    prefixes: Cache


@dataclass(frozen=True, slots=True)
class _Shared:
    """Tokens ``at`` all see the first ``length`` tokens of ``blocks``: a prefix."""

    at: slice
    blocks: Places
    length: int


@dataclass(frozen=True, slots=True)
class _Tails:
    """Rows that see their own blocks, each padded to as many queries and blocks as the largest has.

    Attributes:
        at: the rows' tokens.
        cache: where the blocks are.
        gather: which token of ``at`` each of rows * queries is; None where none is padding.
        scatter: which of rows * queries each token of ``at`` is; None as well.
        mask: added to scores, [rows, 1, queries, blocks * BLOCK]: 0, or minus infinity for what must not be seen.
    """

    at: slice
    cache: Cache
    rows: int
    gather: Tensor | None
    scatter: Tensor | None
    blocks: Places
    mask: Tensor


@dataclass(frozen=True, slots=True)
class _Pruned:
    """A row whose prompt ends with tokens ``at``: of its ``tokens`` in ``blocks`` as many are kept as ``slots``."""

    at: slice
    blocks: Places
    tokens: int
    slots: Tensor


def _rounded(count: int) -> int:
    """A number of tokens that products are computed for: the library keeps half a megabyte of code for every number
    that it meets, for ever, so it must not meet them all."""
    return 1 << (count - 1).bit_length() if count <= 16 else -(-count // 16) * 16


def _by_prefix(chunks: Iterable[Chunk]) -> list[tuple[Prefix | None, list[Chunk]]]:
    jobs: dict[int, tuple[Prefix | None, list[Chunk]]] = {}
    for chunk in chunks:
        jobs.setdefault(id(chunk.of.prefix), (chunk.of.prefix, []))[1].append(chunk)
    return list(jobs.values())


def _size(chunk: Chunk) -> tuple[int, int]:
    """Rows of one size are padded to one another: queries and blocks within a factor of four."""
    blocks = blocks_for(chunk.of.stored + chunk.count)
    return _magnitude(chunk.count), _magnitude(blocks)


def _magnitude(count: int) -> int:
    return ((count - 1).bit_length() + 1) // 2  # 1; 2 to 4; 5 to 16; ...


def _slots(chunk: Chunk) -> Iterable[int]:
    """Where the chunk's tokens belong."""
    first = chunk.of.stored
    return (chunk.of.blocks[at // BLOCK] * BLOCK + at % BLOCK for at in range(first, first + chunk.count))


def _pruned(chunk: Chunk, end: int, drops: int, cache: Cache) -> _Pruned:
    stored = chunk.of.stored + chunk.count
    kept = [chunk.of.blocks[at // BLOCK] * BLOCK + at % BLOCK for at in range(stored - drops)]
    blocks = cache.places(chunk.of.blocks[: blocks_for(stored)])
    return _Pruned(slice(end - chunk.count, end), blocks, stored, cache.slots(kept))


def _own(layer: int, tails: _Tails, queries: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """What the tokens of a group see of their own row: [tokens, heads, size] and log-sum-exps [tokens, heads]."""
    if tails.gather is not None:
        queries = queries[tails.gather]
    blocks = tails.cache.read(layer, tails.blocks)
    keys, values = (part.unflatten(0, (tails.rows, -1)).transpose(1, 2) for part in blocks)
    by_row = queries.unflatten(0, (tails.rows, -1)).transpose(1, 2)
    seen, totals = attention(by_row, keys, values, scale, tails.mask)
    seen, totals = seen.transpose(1, 2).flatten(0, 1), totals.transpose(1, 2).flatten(0, 1)
    return (seen, totals) if tails.scatter is None else (seen[tails.scatter], totals[tails.scatter])


def _tails(group: list[Chunk], start: int, cache: Cache, dtype: torch.dtype, device: torch.device) -> _Tails:
    counts = [chunk.count for chunk in group]
    befores = [chunk.of.stored for chunk in group]
    queries = max(counts)
    most = max(blocks_for(before + count) for before, count in zip(befores, counts, strict=True))
    blocks: list[int] = []
    for chunk in group:
        mine = chunk.of.blocks[: blocks_for(chunk.of.stored + chunk.count)]
        blocks += mine + mine[-1:] * (most - len(mine))
    gather = scatter = None
    if min(counts) != queries:
        scatter_list = [row * queries + query for row, count in enumerate(counts) for query in range(count)]
        gather_list = [0] * (len(group) * queries)
        for token, at in enumerate(scatter_list):
            gather_list[at] = token
        gather, scatter = torch.tensor(gather_list, device=device), torch.tensor(scatter_list, device=device)
    last_seen = torch.tensor(befores, device=device)[:, None] + torch.arange(queries, device=device)
    keys = torch.arange(most * BLOCK, device=device)
    hidden = keys > last_seen[:, None, :, None]
    mask = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))
    at = slice(start, start + sum(counts))
    return _Tails(at, cache, len(group), gather, scatter, cache.places(blocks), mask)
