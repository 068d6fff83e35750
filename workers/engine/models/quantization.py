"""Weights in 8 or 4 bits, by bitsandbytes: an optional package, which computes on CPUs as well."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from schemas.errors import ModelRefused

_BYTES = {"int8": 1.1, "nf4": 0.6}
"""A parameter, with scales; embeddings and norms stay as they are."""


def quantization(name: str, weights: str, dtype: torch.dtype) -> Any:
    """What transformers is told for such weights; None where they are full.

    Raises:
        ModelRefused: a package that it takes is not installed.
    """
    if weights == "full":
        return None
    for package in ("bitsandbytes", "accelerate"):
        if find_spec(package) is None:
            why = f"is set to {weights} weights, and the package {package} is not installed"
            raise ModelRefused(name, why, "Run: pip install 'ticketmill[bits]'")
    if weights == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def bytes_per_parameter(weights: str, dtype: torch.dtype) -> float:
    """Memory that a parameter takes."""
    return _BYTES.get(weights, float(dtype.itemsize))
