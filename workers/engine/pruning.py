"""Which tokens of a prompt are kept: those that its last tokens attend to most."""

from __future__ import annotations

import torch
from torch import Tensor

SINKS = 4
"""First tokens, which are always kept: models rest the attention there that they need nowhere else."""

RECENT = 32
"""Last tokens, which are always kept, and whose attention decides about the others."""


def most_attended(queries: Tensor, keys: Tensor, count: int, scale: float) -> Tensor:
    """Indices [kv_heads, count] of the tokens that each head keeps, in rising order.

    Args:
        queries: of the prompt's last tokens, [at least 1, heads, size].
        keys: of all the row's tokens, [tokens, kv_heads, size].
        count: how many to keep, at least ``SINKS + RECENT``.
    """
    watchers, tokens, kv_heads = queries[-RECENT:], keys.shape[0], keys.shape[1]
    asked = watchers.float().unflatten(1, (kv_heads, -1)).permute(1, 2, 0, 3)  # [kv_heads, group, watchers, size]
    scores = asked @ keys.float().permute(1, 2, 0)[:, None] * scale
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=keys.device).triu(tokens - len(watchers) + 1)
    received = scores.masked_fill_(later, float("-inf")).softmax(-1).sum((1, 2))
    received[:, :SINKS] = received[:, -RECENT:] = float("inf")
    return received.topk(count, dim=-1).indices.sort(dim=-1).values
