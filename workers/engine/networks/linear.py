"""A layer's matrix product with what follows it folded in, where the processor can.

In bfloat16 on a CPU the weights are laid out once for oneDNN and the step after the product (activation, gate,
residual) runs while its result is still in a register. Elsewhere the same four forms are plain operations.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Linear(Protocol):
    """``x`` is [tokens, in]; ``other`` and the results are [tokens, out]."""

    def __call__(self, x: Tensor) -> Tensor:
        """W x + b."""
        ...

    def silu(self, x: Tensor) -> Tensor:
        """silu(W x + b)."""
        ...

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        """(W x + b) * other."""
        ...

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """(W x + b) + other."""
        ...


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """The quickest form of a product with ``weight`` [out, in] on its device and in its type."""
    packs = weight.device.type == "cpu" and weight.dtype == torch.bfloat16
    if packs and torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return PackedLinear(weight, bias)
    return PlainLinear(weight, bias)


class PlainLinear:
    """Any device, any type."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self._weight, self._bias)

    def silu(self, x: Tensor) -> Tensor:
        return functional.silu(self(x), inplace=True)

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x).mul_(other)

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return self(x).add_(other)


class PackedLinear:
    """bfloat16 on a CPU."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")

    def silu(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "swish", [], "")

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(x, other, self._weight, self._bias, "mul")

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(x, other, self._weight, self._bias, "add")
