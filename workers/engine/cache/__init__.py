"""Where keys and values lie between steps: in blocks, a scheme a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

Places = Any
"""Where blocks lie, as their cache asks for it: the same in every layer, so it is found once a step."""


class Cache(Protocol):
    """Keys and values of every layer, ``BLOCK`` tokens a block. A token's pairs are [2 * kv_heads, size], keys first.

    In a step: ``slots`` and ``places`` once, then ``write`` and ``read`` in each layer, then ``settle`` for each row.
    """

    def bytes_for(self, tokens: int) -> int:
        """What a row of so many tokens takes, all layers together."""
        ...

    def slots(self, at: Sequence[int]) -> Tensor:
        """Where tokens are to be written that belong at block number * BLOCK + place in it."""
        ...

    def places(self, blocks: Sequence[int]) -> Places:
        """How to read these blocks."""
        ...

    def write(self, layer: int, pairs: Tensor, slots: Tensor) -> None:
        """Keeps ``pairs`` [tokens, 2 * kv_heads, size]."""
        ...

    def read(self, layer: int, places: Places) -> tuple[Tensor, Tensor]:
        """Keys and values [blocks * BLOCK, kv_heads, size] of those blocks, in that order."""
        ...

    def settle(self, blocks: Sequence[int], tokens: int) -> None:
        """Compresses what a row of so many tokens need no longer hold in full."""
        ...

    def release(self, blocks: Sequence[int], *, wipe: bool = False) -> None:
        """A row gives its blocks back. ``wipe`` them where its state is unknown: a number in them that is not finite
        would spread through the masked attention of the next row that lies there."""
        ...
