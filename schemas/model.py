"""Settings of a model: one that this machine computes, or one that is asked over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from schemas.ticket import Name
from schemas.units import Bytes, Seconds, Share

LEAST_SPLIT = 20 * 10**6
"""What torch takes at least."""


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model on this machine, or with ``base_url`` an upstream that speaks the OpenAI chat API."""

    path: str = "smollm2-135m-instruct"
    """A directory, or ``smollm2-135m-instruct`` for the model from its package."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """``auto``: bfloat16 where the device computes it natively."""
    weights: Literal["full", "int8", "nf4"] = "full"
    """``int8`` or ``nf4``: weights in 8 or 4 bits, by bitsandbytes; they take less memory, and compute in ``dtype``."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """``auto``: cuda if there is one."""
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Processor threads that compute; 0: as many as make sense here."""
    context: Annotated[int, msgspec.Meta(ge=64)] | None = None
    """Longest prompt and answer together, in tokens; empty: what the model was made for."""
    base_url: str = ""
    """Of an upstream, up to and without ``/chat/completions``; empty: the model is on this machine."""
    name: str = ""
    """What the upstream calls the model."""
    key_env: str = ""
    """The environment variable that holds the upstream's key; empty: it wants none."""
    in_flight: Annotated[int, msgspec.Meta(ge=1)] = 16
    """Requests that a worker has open at the upstream at most."""
    timeout: Seconds = Seconds(60.0)
    """How long an upstream may take for one answer."""
    fallback: Name | Literal[""] = ""
    """Another model, which answers alone what this one would not, one ticket at a time; empty: none."""


class AllocatorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How torch's allocator treats a device's memory: `PYTORCH_ALLOC_CONF`, which wins where it is set itself."""

    max_split_size: Bytes = Bytes(0)
    """Larger pieces are never split, so that small ones do not eat them up; 20 MB or more; 0: torch's own way. 64 MB
    suits a small device."""
    expandable_segments: bool = False
    """Segments grow where they are, instead of new ones beside them; never together with ``max_split_size``."""
    garbage_collection: Share = Share(0.0)
    """From this share of the device's memory on, unused pieces are given back before more is asked for; 0: never."""

    def conf(self) -> str:
        """As torch reads it; empty for torch's own way."""
        parts: list[str] = []
        if self.max_split_size:
            parts.append(f"max_split_size_mb:{self.max_split_size // 10**6}")
        if self.expandable_segments:
            parts.append("expandable_segments:True")
        if self.garbage_collection:
            parts.append(f"garbage_collection_threshold:{self.garbage_collection:g}")
        return ",".join(parts)

    def wrong(self) -> tuple[str, str] | None:
        """The field that cannot be used and why, if there is one."""
        if self.max_split_size and self.max_split_size < LEAST_SPLIT:
            return "max_split_size", f"must be {LEAST_SPLIT // 10**6} MB or more, or 0"
        if self.max_split_size and self.expandable_segments:
            return "expandable_segments", "cannot be set together with allocator.max_split_size"
        if self.garbage_collection >= 1:
            return "garbage_collection", "must be under 100 %"
        return None


def wrong_with(name: str, models: dict[str, ModelSettings]) -> tuple[str, str] | None:
    """The field of one of the models that cannot be used and why, if there is one."""
    model = models[name]
    if model.base_url and not model.base_url.startswith(("http://", "https://")):
        return "base_url", "must begin with http:// or https://"
    if model.base_url and not model.name:
        return "name", "must say what the upstream calls the model"
    if model.base_url and model.timeout <= 0:
        return "timeout", "must be more than 0"
    if model.fallback and model.fallback not in models:
        return "fallback", f"names {model.fallback!r}, which is not under models"
    if model.fallback == name:
        return "fallback", "must be another model"
    return None
