"""Softmax attention with its log-sum-exp, so that what a query sees in two places can be put together.

A row sees its job's prefix, which all rows of the job share, and a tail of its own. Each part is attended by
itself; `merged` weighs the two answers by how much score each part held. The result is that of one softmax.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attention(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What queries see, [rows, heads, q, size], and the log-sum-exp of their scores, [rows, heads, q].

    Args:
        queries: [rows, heads, q, size].
        keys, values: [rows, kv_heads, k, size]; heads share them in equal groups.
        mask: added to the scores, [rows or 1, 1, q, k]; every query must see something.
    """
    if queries.device.type == "cpu":
        mask = None if mask is None else mask.to(queries.dtype)
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # the only one that tells its log-sum-exp
        return fused(queries, keys, values, 0.0, False, attn_mask=mask, scale=scale)
    return plain_attention(queries, keys, values, scale, mask)


def plain_attention(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same in plain operations, for any device."""
    rows, heads, count, size = queries.shape
    groups = heads // keys.shape[1]
    folded = queries.reshape(rows, keys.shape[1], groups * count, size)
    scores = (folded @ keys.transpose(-1, -2)).float().mul_(scale)
    if mask is not None:
        scores = scores.unflatten(2, (groups, count)).add_(mask[:, :, None].float()).flatten(2, 3)
    total = scores.logsumexp(-1, keepdim=True)
    seen = scores.sub_(total).exp_().to(values.dtype) @ values
    return seen.view(rows, heads, count, size), total.view(rows, heads, count)


def merged(first: Tensor, first_total: Tensor, second: Tensor, second_total: Tensor) -> Tensor:
    """One answer of two: ``first`` and ``second`` are [..., size], their log-sum-exps [...]."""
    share = torch.sigmoid(first_total - second_total).unsqueeze(-1).to(first.dtype)
    return torch.lerp(second, first, share)
