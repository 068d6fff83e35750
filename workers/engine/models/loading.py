"""A directory's model, in memory and checked: the network that computes it, its tokenizer, and where it stops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported: nothing here asks the network
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from schemas.errors import ModelRefused
from schemas.model import ModelSettings
from workers.engine.memory import host_memory
from workers.engine.models.directory import Facts, inspected
from workers.engine.models.packaged import NAME, packaged_model
from workers.engine.models.quantization import bytes_per_parameter, quantization
from workers.engine.networks import Network, networks_for
from workers.engine.networks.trial import tried

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_LOADING_OVERHEAD = 1.2
"""Share of the weights' size that is needed while they are loaded and packed, layer by layer."""


class Model(NamedTuple):
    """A model that is ready to compute.

    Attributes:
        stop_ids: tokens that end an answer.
        context: the longest prompt and answer together, in tokens.
    """

    name: str
    network: Network
    tokenizer: Any
    stop_ids: frozenset[int]
    context: int
    dtype: torch.dtype
    device: torch.device


def load_model(settings: ModelSettings, home: Path) -> Model:
    """The model that the settings name.

    Raises:
        ModelRefused: see `directory.inspected`; also a device that is not there, too little memory, and a model
            that the engine would compute differently from transformers.
    """
    name = settings.path
    directory = packaged_model(home) if name == NAME else Path(name).expanduser()
    facts = inspected(name, directory)
    device = _device(name, settings)
    dtype = _dtype(settings, device)
    quantized = quantization(name, settings.weights, dtype)
    _room(name, facts, settings.weights, dtype, device)
    logging.disable_progress_bar()
    tokenizer = _tokenizer(name, directory)
    network, config, stops = _network(name, directory, dtype, device, quantized)
    if len(tokenizer) > network.vocabulary:
        why = f"has a tokenizer of {len(tokenizer)} tokens and weights for {network.vocabulary}"
        raise ModelRefused(name, why, "Copy the tokenizer that belongs to the weights")
    limits = [config.max_position_embeddings, settings.context, _window(config)]
    return Model(
        name=NAME if name == NAME else directory.name,
        network=network,
        tokenizer=tokenizer,
        stop_ids=frozenset(stops) | {tokenizer.eos_token_id} - {None},
        context=min(limit for limit in limits if limit),
        dtype=dtype,
        device=device,
    )


def _device(name: str, settings: ModelSettings) -> torch.device:
    there = torch.cuda.is_available()
    if settings.device == "cuda" and not there:
        raise ModelRefused(name, "is set to run on cuda, and torch sees no such device", "Set models.*.device to cpu")
    return torch.device("cuda" if there and settings.device != "cpu" else "cpu")


def _dtype(settings: ModelSettings, device: torch.device) -> torch.dtype:
    if settings.dtype != "auto":
        return _DTYPES[settings.dtype]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    native = torch.cpu._is_avx512_bf16_supported()  # pyright: ignore[reportPrivateUsage] - no public name yet
    return torch.bfloat16 if native else torch.float32


def _room(name: str, facts: Facts, weights: str, dtype: torch.dtype, device: torch.device) -> None:
    needed = int(facts.parameters * bytes_per_parameter(weights, dtype) * _LOADING_OVERHEAD)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else host_memory().free_bytes
    if needed > free:
        why = f"needs {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free"
        raise ModelRefused(name, why, "Choose a smaller model or dtype; `ticketmill model list` names some with sizes")


def _tokenizer(name: str, directory: Path) -> Any:
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a broken file makes the library raise
        raise ModelRefused(name, f"its tokenizer cannot be read: {_line(error)}", "Copy its files again") from None
    if not tokenizer.is_fast:
        raise ModelRefused(name, "has only a slow tokenizer", "Save it with a tokenizer.json")
    if not tokenizer.chat_template:
        raise ModelRefused(name, "has no chat template", "Use its instruction-tuned variant")
    return tokenizer


def _network(
    name: str, directory: Path, dtype: torch.dtype, device: torch.device, quantized: Any
) -> tuple[Network, Any, list[int]]:
    """The fastest network that gives what transformers gives: each kind is tried on a sample before it serves."""
    for kind in networks_for(_config(name, directory), quantized is not None):
        model = _weights(name, directory, dtype, device, quantized)
        if network := tried(kind, model):
            stops: int | list[int] | None = model.generation_config.eos_token_id
            return network, model.config, stops if isinstance(stops, list) else [] if stops is None else [stops]
    fix = "Use a model of the Llama, Mistral, Qwen2 or Qwen3 family"
    raise ModelRefused(name, "has attention of a kind that cannot be batched here", fix)


def _config(name: str, directory: Path) -> Any:
    try:
        return AutoConfig.from_pretrained(directory, local_files_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a broken file makes the library raise
        fix = "A newer transformers may know it; code that comes with a model is never run"
        raise ModelRefused(name, f"cannot be understood: {_line(error)}", fix) from None


def _weights(name: str, directory: Path, dtype: torch.dtype, device: torch.device, quantized: Any) -> Any:
    how: dict[str, Any] = {"quantization_config": quantized, "device_map": {"": device}} if quantized else {}
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory, dtype=dtype, local_files_only=True, output_loading_info=True, **how
        )
        model, report = loaded
        lacking: list[str] = sorted(report["missing_keys"])
    except Exception as error:  # noqa: BLE001 - whatever a broken file makes the library raise
        raise ModelRefused(name, f"its weights cannot be loaded: {_line(error)}", "Copy its files again") from None
    if lacking:
        raise ModelRefused(name, f"its weights lack {lacking[0]} and {len(lacking) - 1} more", "Copy its files again")
    return model.eval() if quantized else model.eval().to(device)


def _window(config: Any) -> int | None:
    """Tokens that a layer with sliding attention sees: within them it sees all, as every layer here does."""
    kinds: list[str] = getattr(config, "layer_types", None) or []
    sliding = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
    return getattr(config, "sliding_window", None) if sliding else None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
