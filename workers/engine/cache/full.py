"""Keys and values as the model makes them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from workers.engine.cache import Places
from workers.engine.networks import KVShape
from workers.engine.scheduler import BLOCK


class FullCache:
    """One tensor a layer, [blocks, BLOCK, 2 * kv_heads, size], made once."""

    def __init__(self, shape: KVShape, blocks: int, dtype: torch.dtype, device: torch.device) -> None:
        self._shape, self._dtype = shape, dtype
        size = (blocks, BLOCK, 2 * shape.kv_heads, shape.head_size)
        self._layers = [_zeros(size, dtype, device) for _ in range(shape.layers)]
        self._flat = [layer.flatten(0, 1) for layer in self._layers]

    @property
    def bytes_per_token(self) -> int:
        """What one token takes, all layers together."""
        return self._shape.layers * 2 * self._shape.kv_heads * self._shape.head_size * self._dtype.itemsize

    def write(self, layer: int, pairs: Tensor, slots: Tensor) -> None:
        """See `Cache`."""
        self._flat[layer].index_copy_(0, slots, pairs)

    def read(self, layer: int, places: Places) -> tuple[Tensor, Tensor]:
        """See `Cache`. A slice is not copied."""
        kept = self._layers[layer]
        found = kept[places] if isinstance(places, slice) else kept.index_select(0, places)
        keys, values = found.flatten(0, 1).chunk(2, dim=1)
        return keys, values

    def wipe(self, blocks: Tensor) -> None:
        """See `Cache`."""
        for layer in self._layers:
            layer.index_fill_(0, blocks, 0)


def _zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros. On a CPU they take no memory until they are written to, which torch's own would."""
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    raw = np.zeros((*size[:-1], size[-1] * dtype.itemsize), dtype=np.uint8)
    return torch.from_numpy(raw).view(dtype)
