"""Where keys and values lie between steps: in blocks, a scheme a file."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

Places = slice | Tensor
"""Which blocks: consecutive ones as a slice, so that they are read where they lie, others as their numbers."""


class Cache(Protocol):
    """Keys and values of every layer, ``BLOCK`` tokens a block."""

    @property
    def bytes_per_token(self) -> int:
        """What one token takes, all layers together."""
        ...

    def write(self, layer: int, pairs: Tensor, slots: Tensor) -> None:
        """Keeps ``pairs`` [tokens, 2 * kv_heads, size] at ``slots`` [tokens]: block number * BLOCK + place in it."""
        ...

    def read(self, layer: int, places: Places) -> tuple[Tensor, Tensor]:
        """Keys and values [blocks * BLOCK, kv_heads, size] of those blocks, in that order."""
        ...

    def wipe(self, blocks: Tensor) -> None:
        """Zeroes blocks: a row whose numbers were no longer finite must not reach the next that lies there."""
        ...


def places(blocks: list[int], device: torch.device) -> Places:
    """How to ask for these blocks."""
    if blocks == list(range(blocks[0], blocks[0] + len(blocks))):
        return slice(blocks[0], blocks[-1] + 1)
    return torch.tensor(blocks, device=device)
