"""The arithmetic of a model over loose tokens: no padding, no cache of its own. One kind of model a file.

A network is given the tokens of all rows of a step one after the other, with the position of each, and asks
``attend`` for what each token sees: the caller knows whose keys and values lie where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor


class KVShape(NamedTuple):
    """Sizes of the keys and values of one token: ``layers`` times 2 times ``kv_heads`` times ``head_size``."""

    layers: int
    kv_heads: int
    head_size: int


class Attend(Protocol):
    """Keeps a layer's new keys and values, and gives what its queries see.

    Shapes: queries [tokens, heads, head_size]; pairs [tokens, 2 * kv_heads, head_size], keys first, then values;
    the answer is [tokens, heads * head_size]. ``scale`` multiplies the scores.
    """

    def __call__(self, layer: int, queries: Tensor, pairs: Tensor, scale: float, /) -> Tensor: ...


class Network(Protocol):
    """A decoder's arithmetic."""

    shape: KVShape
    vocabulary: int

    def __call__(self, tokens: Tensor, positions: Tensor, wanted: Tensor, attend: Attend) -> Tensor:
        """Logits [wanted, vocabulary] of the tokens at the indices ``wanted``; ``tokens`` and ``positions`` are [n]."""
        ...


def networks_for(config: Any, quantized: bool) -> list[Callable[[Any], Network]]:
    """Makers of networks for such a model, the fastest first. A maker may take the model's weights apart, which
    ``quantized`` ones do not bear."""
    from workers.engine.networks.llama import LlamaNetwork, is_llama
    from workers.engine.networks.stock import StockNetwork

    return [LlamaNetwork, StockNetwork] if is_llama(config) and not quantized else [StockNetwork]
