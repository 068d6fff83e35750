"""Keys and values as the model makes them, or in another floating type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from workers.engine.networks import KVShape
from workers.engine.scheduler import BLOCK


class FullCache:
    """One tensor a layer, [blocks, BLOCK, 2 * kv_heads, size], made once.

    Args:
        kept: the type that they are kept in; None: ``dtype``, which the model computes in.
    """

    def __init__(
        self, shape: KVShape, blocks: int, dtype: torch.dtype, device: torch.device, kept: torch.dtype | None = None
    ) -> None:
        self._shape, self._dtype, self._kept, self._device = shape, dtype, kept or dtype, device
        size = (blocks, BLOCK, 2 * shape.kv_heads, shape.head_size)
        self._layers = [zeros(size, self._kept, device) for _ in range(shape.layers)]
        self._flat = [layer.flatten(0, 1) for layer in self._layers]

    def bytes_for(self, tokens: int) -> int:
        """See `Cache`."""
        return self._shape.layers * 2 * self._shape.kv_heads * self._shape.head_size * self._kept.itemsize * tokens

    def slots(self, at: Sequence[int]) -> Tensor:
        """See `Cache`."""
        return torch.tensor(at, device=self._device)

    def places(self, blocks: Sequence[int]) -> slice | Tensor:
        """Consecutive blocks as a slice, so that they are read where they lie; others as their numbers."""
        if blocks == list(range(blocks[0], blocks[0] + len(blocks))):
            return slice(blocks[0], blocks[-1] + 1)
        return torch.tensor(blocks, device=self._device)

    def write(self, layer: int, pairs: Tensor, slots: Tensor) -> None:
        """See `Cache`."""
        self._flat[layer].index_copy_(0, slots, pairs.to(self._kept))

    def read(self, layer: int, places: slice | Tensor) -> tuple[Tensor, Tensor]:
        """See `Cache`. A slice is not copied, unless it is kept in another type."""
        found = self.fetch(layer, places)
        if self._kept is not self._dtype:
            found = found.float().to(self._dtype)  # twice as quick as straight from one half type to the other
        keys, values = found.flatten(0, 1).chunk(2, dim=1)
        return keys, values

    def fetch(self, layer: int, places: slice | Tensor) -> Tensor:
        """Blocks as they are kept, [blocks, BLOCK, 2 * kv_heads, size]."""
        kept = self._layers[layer]
        return kept[places] if isinstance(places, slice) else kept.index_select(0, places)

    def settle(self, blocks: Sequence[int], tokens: int) -> None:
        """Nothing is compressed."""

    def release(self, blocks: Sequence[int], *, wipe: bool = False) -> None:
        """See `Cache`."""
        if wipe and blocks:
            numbers = torch.tensor(blocks, device=self._device)
            for layer in self._layers:
                layer.index_fill_(0, numbers, 0)


def zeros(size: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros. On a CPU they take no memory until they are written to, which torch's own would."""
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    raw = np.zeros((*size[:-1], size[-1] * dtype.itemsize), dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype)
