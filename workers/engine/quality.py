"""How well a cache serves a model: what it says of a text that is read through the cache."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import torch

from workers.engine.cache import Cache
from workers.engine.layout import Caches, Layout
from workers.engine.networks import Network
from workers.engine.pruning import RECENT, SINKS
from workers.engine.scheduler import BLOCK, Chunk, Prefix, Row, blocks_for, kept


class Reading(NamedTuple):
    """For each token of a text but the first: what it cost, in nats, and which token the model would have picked."""

    costs: torch.Tensor
    picks: torch.Tensor

    def after(self, tokens: int) -> Reading:
        """Only what follows so many tokens."""
        return Reading(self.costs[tokens:], self.picks[tokens:])


def perplexity_increase(reading: Reading, full: Reading) -> float:
    """By what share it is more perplexed than with the full cache."""
    return exp(float((reading.costs - full.costs).mean())) - 1


@torch.inference_mode()
def read(
    network: Network, cache: Cache, tokens: Sequence[int], dtype: torch.dtype, device: torch.device, keep: float = 1.0
) -> Reading:
    """Reads a text ``BLOCK`` tokens a step.

    The cache must hold no row. The text is a row without a prefix, so the scheme is applied to all of it.

    Args:
        keep: share of the text's first two thirds that is kept when they have been read.
    """
    row = Row(Prefix(()), list(tokens), len(tokens) * 2 // 3, 0, list(range(blocks_for(len(tokens)))))
    row.droppable = row.prompt - kept(row.prompt, keep, SINKS + RECENT)
    costs: list[torch.Tensor] = []
    picks: list[torch.Tensor] = []
    while row.computed < len(tokens) - 1:
        end = row.prompt if row.computed < row.prompt else len(tokens) - 1
        chunk = Chunk(row, min(BLOCK, end - row.computed))
        layout = Layout([chunk], Caches(cache, cache), dtype, device)
        logits = network(layout.tokens, layout.positions, torch.arange(chunk.count, device=device), layout.attend)
        following = torch.tensor(row.tokens[row.computed + 1 :][: chunk.count], device=device)
        costs.append(torch.nn.functional.cross_entropy(logits.float(), following, reduction="none").cpu())
        picks.append(logits.argmax(-1).cpu())
        drops = chunk.drops
        row.computed += chunk.count
        row.dropped += drops
        cache.settle(row.blocks, row.stored)
    cache.release(row.blocks, wipe=True)
    return Reading(torch.cat(costs), torch.cat(picks))
