"""Blocks of keys and values as small whole numbers: keys with a scale per channel, values with one per token.

Keys have channels that are large in every token, so a channel of a block shares its scale; values have none. Eight
bits need no offset; fewer do.
"""

from __future__ import annotations

from math import gcd

import torch
from torch import Tensor

from workers.engine.cache.full import zeros
from workers.engine.networks import KVShape
from workers.engine.scheduler import BLOCK

_PLANES = {8: (8,), 4: (4,), 3: (2, 1)}
"""Bits of a number that lie together in bytes: three are kept as two and one."""

_LEAST_SCALE = 2.0**-24
"""The smallest number of the type that scales are kept in."""


class Codes:
    """Blocks of one layer, each coded on its own.

    Args:
        bits: 8, 4 or 3 a number.
        group: channels of a value that share a scale.
    """

    def __init__(self, shape: KVShape, blocks: int, bits: int, group: int, device: torch.device) -> None:
        self._bits, self._group = bits, gcd(group, shape.head_size)
        heads, size = shape.kv_heads, shape.head_size
        self._planes = [
            zeros((blocks, BLOCK, 2 * heads, size * width // 8), torch.uint8, device) for width in _PLANES[bits]
        ]
        of_keys, of_values = (blocks, 1, heads, size), (blocks, BLOCK, heads, size // self._group)
        self._scales = [zeros(each, torch.float16, device) for each in (of_keys, of_values)]
        self._least = [zeros(each, torch.float16, device) for each in (of_keys, of_values)] if bits < 8 else []

    @property
    def block_bytes(self) -> int:
        """What a block takes in one layer."""
        return sum(part[:1].numel() * part.element_size() for part in (*self._planes, *self._scales, *self._least))

    def keep(self, numbers: Tensor, blocks: Tensor) -> None:
        """Codes ``blocks`` [n, BLOCK, 2 * kv_heads, size] and keeps them at ``numbers`` [n]."""
        codes: list[Tensor] = []
        for at, part in enumerate(blocks.float().chunk(2, dim=2)):
            grouped = part.unflatten(-1, (-1, self._group)) if at else part
            axis = -1 if at else 1
            scale, least = self._line(grouped, axis)
            found = ((grouped - least) / scale).round_().clamp_(0, 2**self._bits - 1).to(torch.uint8)
            codes.append((found ^ 128 if self._bits == 8 else found).view(part.shape))
            self._scales[at].index_copy_(0, numbers, scale.squeeze(-1).half() if at else scale.half())
            if self._least:
                self._least[at].index_copy_(0, numbers, least.squeeze(-1).half() if at else least.half())
        whole, shift = torch.cat(codes, dim=2), 0
        for plane, width in zip(self._planes, _PLANES[self._bits], strict=True):
            plane.index_copy_(0, numbers, _packed((whole >> shift) & (2**width - 1), width))
            shift += width

    def fetch(self, numbers: Tensor, dtype: torch.dtype) -> Tensor:
        """The blocks at ``numbers`` [n] as they were, but for rounding: [n, BLOCK, 2 * kv_heads, size]."""
        whole, shift = None, 0
        for plane, width in zip(self._planes, _PLANES[self._bits], strict=True):
            part = _unpacked(plane.index_select(0, numbers), width) << shift
            whole, shift = part if whole is None else whole | part, shift + width
        assert whole is not None
        found = torch.empty(whole.shape, dtype=dtype, device=whole.device)
        for at, (codes, into) in enumerate(zip(whole.chunk(2, dim=2), found.chunk(2, dim=2), strict=True)):
            grouped = codes.unflatten(-1, (-1, self._group)) if at else codes
            into = into.unflatten(-1, (-1, self._group)) if at else into
            scale = self._scales[at].index_select(0, numbers).to(dtype)
            scale = scale.unsqueeze(-1) if at else scale
            if self._least:  # not addcmul, which is many times slower where its operands are broadcast
                least = self._least[at].index_select(0, numbers).to(dtype)
                torch.mul(grouped.to(dtype), scale, out=into).add_(least.unsqueeze(-1) if at else least)
            else:  # eight bits are kept as signed numbers
                torch.mul(grouped.view(torch.int8).to(dtype), scale, out=into)
        return found

    def wipe(self, numbers: Tensor) -> None:
        """Zeroes blocks."""
        for part in (*self._scales, *self._least):
            part.index_fill_(0, numbers, 0)

    def _line(self, grouped: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        """Scale and least number along an axis, as they are once they have been kept."""
        if not self._least:
            half = 2 ** (self._bits - 1)
            scale = (grouped.abs().amax(axis, keepdim=True) / (half - 1)).clamp_min_(_LEAST_SCALE).half().float()
            return scale, -half * scale
        least = grouped.amin(axis, keepdim=True).half().float()
        spread = grouped.amax(axis, keepdim=True) - least
        return (spread / (2**self._bits - 1)).clamp_min_(_LEAST_SCALE).half().float(), least


def _packed(codes: Tensor, width: int) -> Tensor:
    """Codes of ``width`` bits, several a byte, along the last dimension."""
    if width == 8:
        return codes
    parts = codes.chunk(8 // width, dim=-1)
    packed = parts[0].clone()
    for at, part in enumerate(parts[1:], start=1):
        packed |= part << (at * width)
    return packed


def _unpacked(packed: Tensor, width: int) -> Tensor:
    if width == 8:
        return packed
    mask = 2**width - 1
    return torch.cat([(packed >> (at * width)) & mask for at in range(8 // width)], dim=-1)
