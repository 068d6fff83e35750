"""A network tried by itself, without batch or cache: is it right, and how quick is it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from workers.engine.attention import attention
from workers.engine.networks import Network


def sample_tokens(vocabulary: int, device: torch.device, count: int = 24) -> Tensor:
    """Some tokens, the same for every model."""
    return (torch.arange(count, device=device) * 7919 + 104_729) % vocabulary


@torch.inference_mode()
def tried(kind: Callable[[Any], Network], model: Any) -> Network | None:
    """A network of that kind with the model's weights, if it computes what the model does, but for rounding."""
    sample = sample_tokens(model.config.vocab_size, model.device)
    expected = model(input_ids=sample[None], use_cache=False).logits[0, -1].float()
    try:
        network = kind(model)
        got = last_logits(network, sample)
    except Exception:  # noqa: BLE001 - a model of an unknown kind may fail in any way: it is not served, that is all
        return None
    return network if bool((got - expected).norm() <= 0.05 * expected.norm()) else None


@torch.inference_mode()
def last_logits(network: Network, tokens: Tensor) -> Tensor:
    """Logits [vocabulary] after one text, [tokens]."""

    def attend(_layer: int, queries: Tensor, pairs: Tensor, scale: float) -> Tensor:
        keys, values = pairs[None].transpose(1, 2).chunk(2, dim=1)
        seen, _ = attention(queries[None].transpose(1, 2), keys, values, scale, mask)
        return seen[0].transpose(0, 1).flatten(1)

    count, device = len(tokens), tokens.device
    mask = torch.full((count, count), float("-inf"), device=device).triu(1)[None, None]
    wanted = torch.tensor([count - 1], device=device)
    return network(tokens, torch.arange(count, device=device), wanted, attend)[0].float()
