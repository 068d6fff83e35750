"""The only forward pass: a step's chunks in, the next token of each row that picks one out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from workers.engine.layout import Caches, Layout
from workers.engine.networks import Network
from workers.engine.sampling import Sampler
from workers.engine.scheduler import Chunk, Row

Allowed = NDArray[np.bool_]
"""For every token of the vocabulary whether it may come next."""


class Runner:
    """Computes steps on one device."""

    def __init__(self, network: Network, caches: Caches, dtype: torch.dtype, device: torch.device) -> None:
        self._network, self._caches = network, caches
        self._dtype, self._device = dtype, device

    @torch.inference_mode()
    def release(self, blocks: Sequence[int], *, wipe: bool = False) -> None:
        """A row leaves; see `Cache`."""
        self._caches.rows.release(blocks, wipe=wipe)

    @torch.inference_mode()
    def release_prefixes(self, blocks: Sequence[int]) -> None:
        """Prefixes leave: their blocks are wiped."""
        self._caches.prefixes.release(blocks, wipe=True)

    @torch.inference_mode()
    def run(
        self, chunks: Sequence[Chunk], allowed: Mapping[Row, Allowed], samplers: Mapping[Row, Sampler]
    ) -> list[tuple[Row, int | None]]:
        """Computes the chunks and picks the next token of every row that is complete: the likeliest, or as its sampler
        draws it.

        A row in ``allowed`` picks among its allowed tokens only. None in place of a token: the row's numbers are no
        longer finite; it must leave, and its blocks be wiped.
        """
        layout = Layout(chunks, self._caches, self._dtype, self._device)
        logits = self._network(layout.tokens, layout.positions, layout.wanted, layout.attend)
        for chunk in chunks:
            if isinstance(chunk.of, Row):
                self._caches.rows.settle(chunk.of.blocks, chunk.of.stored + chunk.count - chunk.drops)
        rows = [chunk.of for chunk in layout.picking if isinstance(chunk.of, Row)]
        for index, row in enumerate(rows):
            if row in allowed:
                barred = torch.from_numpy(~allowed[row]).to(self._device)
                logits[index].masked_fill_(barred, float("-inf"))
        if not rows:
            return []
        best, tokens = logits.max(dim=-1)  # a NaN anywhere makes the largest a NaN
        picked: list[tuple[Row, int | None]] = []
        for index, (row, token, sound) in enumerate(zip(rows, tokens.tolist(), best.isfinite().tolist(), strict=True)):
            if sound and row in samplers:
                token = samplers[row].pick(logits[index])
            picked.append((row, token if sound else None))
        return picked
