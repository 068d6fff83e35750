"""Settings of a model: one that this machine computes, or one that is asked over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from schemas.ticket import Name
from schemas.units import Seconds


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model on this machine, or with ``base_url`` an upstream that speaks the OpenAI chat API."""

    path: str = "smollm2-135m-instruct"
    """A directory, or ``smollm2-135m-instruct`` for the model from its package."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """``auto``: bfloat16 where the device computes it natively."""
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
