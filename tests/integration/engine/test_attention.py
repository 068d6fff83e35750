"""Attention in parts is attention."""

from __future__ import annotations

import pytest
import torch

from workers.engine.attention import attention, merged, plain_attention
from workers.engine.layout import _rounded


@pytest.mark.parametrize(
    ("heads", "kv_heads", "dtype", "close"), [(6, 2, torch.float32, 1e-5), (4, 4, torch.bfloat16, 0.03)]
)
def test_the_fused_and_the_plain_form_agree(heads: int, kv_heads: int, dtype: torch.dtype, close: float) -> None:
    torch.manual_seed(1)
    queries = torch.randn(3, heads, 5, 16, dtype=dtype)
    keys, values = torch.randn(2, 3, kv_heads, 9, 16, dtype=dtype)
    mask = torch.zeros(3, 1, 5, 9).masked_fill(torch.rand(3, 1, 5, 9) < 0.3, float("-inf"))
    mask[..., 0] = 0
    for chosen in (None, mask):
        fused, plain = (form(queries, keys, values, 0.25, chosen) for form in (attention, plain_attention))
        for mine, theirs in zip(fused, plain, strict=True):
            torch.testing.assert_close(mine.float(), theirs.float(), rtol=close, atol=close)


def test_two_parts_put_together_are_one_softmax() -> None:
    torch.manual_seed(1)
    queries = torch.randn(2, 4, 3, 16)
    keys, values = torch.randn(2, 2, 4, 11, 16)
    whole, total = attention(queries, keys, values, 0.25)
    first = attention(queries, keys[:, :, :4], values[:, :, :4], 0.25)
    second = attention(queries, keys[:, :, 4:], values[:, :, 4:], 0.25)
    torch.testing.assert_close(merged(*first, *second), whole)
    torch.testing.assert_close(torch.logaddexp(first[1], second[1]), total)


def test_steps_of_any_size_are_computed_for_few_sizes() -> None:
    sizes = {_rounded(count) for count in range(1, 257)}
    assert len(sizes) <= 20
    assert all(count <= _rounded(count) < count + 16 for count in range(1, 2_049))
