"""Any decoder that transformers computes with exchangeable attention: its own layers, our attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from workers.engine.networks import Attend, KVShape

_NAME = "ticketmill"


class StockNetwork:
    """Slower than a network by hand, and right for many more models."""

    def __init__(self, model: Any) -> None:
        self.vocabulary: int = model.get_output_embeddings().weight.shape[0]
        AttentionInterface.register(_NAME, _attention)
        AttentionMaskInterface.register(_NAME, _no_mask)
        model.set_attn_implementation(_NAME)
        self._model = model
        self.shape = self._asked()

    def __call__(self, tokens: Tensor, positions: Tensor, wanted: Tensor, attend: Attend) -> Tensor:
        """See `Network`."""
        answer = self._model(
            input_ids=tokens[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=wanted,
            ticketmill_attend=attend,
        )
        return answer.logits[0]

    def _asked(self) -> KVShape:
        """What the model itself says when it is run on one token: configs name their sizes in many ways."""
        shapes: list[tuple[int, ...]] = []

        def attend(_layer: int, queries: Tensor, pairs: Tensor, _scale: float) -> Tensor:
            shapes.append(tuple(pairs.shape))
            return queries.flatten(1)

        zero = torch.zeros(1, dtype=torch.long, device=self._model.device)
        self(zero, zero, zero, attend)
        _, heads, size = shapes[0]
        return KVShape(len(shapes), heads // 2, size)


def _no_mask(*_: Any, **__: Any) -> None:
    """The attention below knows by itself what a token may see."""


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 - the library's names
    scaling: float | None = None,
    ticketmill_attend: Attend | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """``query`` is [1, heads, tokens, size], as the library has it; the answer is [1, tokens, heads, size]."""
    if ticketmill_attend is None:
        raise TypeError("this model does not hand its attention what it was called with")
    queries = query[0].transpose(0, 1)
    pairs = torch.cat((key[0], value[0])).transpose(0, 1)
    seen = ticketmill_attend(module.layer_idx, queries, pairs, scaling or queries.shape[-1] ** -0.5)
    return seen.view(1, *queries.shape), None
