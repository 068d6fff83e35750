"""The only forward pass: a step's chunks in, the next token of each row that picks one out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from workers.engine.cache import Cache
from workers.engine.layout import Layout
from workers.engine.networks import Network
from workers.engine.scheduler import Chunk, Row

Allowed = NDArray[np.bool_]
"""For every token of the vocabulary whether it may come next."""


class Runner:
    """Computes steps on one device."""

    def __init__(self, network: Network, cache: Cache, dtype: torch.dtype, device: torch.device) -> None:
        self._network, self._cache = network, cache
        self._dtype, self._device = dtype, device

    @torch.inference_mode()
    def wipe(self, blocks: Sequence[int]) -> None:
        """Zeroes the blocks of rows that leave in an unknown state: numbers that are not finite would spread."""
        if blocks:
            self._cache.wipe(torch.tensor(blocks, device=self._device))

    @torch.inference_mode()
    def run(self, chunks: Sequence[Chunk], allowed: Mapping[Row, Allowed]) -> list[tuple[Row, int | None]]:
        """Computes the chunks and picks the likeliest next token of every row that is complete.

        A row in ``allowed`` picks among its allowed tokens only. None in place of a token: the row's numbers are no
        longer finite; its blocks have been wiped, so that it can be removed without harm to others.
        """
        layout = Layout(chunks, self._cache, self._dtype, self._device)
        logits = self._network(layout.tokens, layout.positions, layout.wanted, layout.attend)
        rows = [chunk.of for chunk in layout.picking if isinstance(chunk.of, Row)]
        for index, row in enumerate(rows):
            if row in allowed:
                barred = torch.from_numpy(~allowed[row]).to(self._device)
                logits[index].masked_fill_(barred, float("-inf"))
        if not rows:
            return []
        best, tokens = logits.max(dim=-1)  # a NaN anywhere makes the largest a NaN
        picked: list[tuple[Row, int | None]] = []
        for row, token, sound in zip(rows, tokens.tolist(), best.isfinite().tolist(), strict=True):
            if not sound:
                self.wipe(row.blocks)
            picked.append((row, token if sound else None))
        return picked
