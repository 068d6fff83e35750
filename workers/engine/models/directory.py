"""What a model's directory must hold before torch is troubled with it. Reads headers only; imports no model stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from schemas.errors import ModelRefused

_SAVE = "Save it again with save_pretrained(), or copy it again"
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8}
_LARGEST_HEADER = 100_000_000
"""Bytes; the format's own limit. A larger number is no safetensors file."""


class Facts(NamedTuple):
    """What the directory says of its model."""

    config: dict[str, Any]
    parameters: int


def inspected(name: str, directory: Path) -> Facts:
    """The facts of a model directory that could serve.

    Raises:
        ModelRefused: not a directory; no or broken config; not a decoder that generates text; weights missing, in
            another format, or shorter than their header says; no tokenizer; no chat template.
    """
    if not directory.is_dir():
        fix = "Give the directory of a model on this machine, or smollm2-135m-instruct for the packaged one"
        raise ModelRefused(name, f"{directory} is not a directory", fix)
    config = _json(name, directory, "config.json", "Point models.*.path at the directory that holds it")
    _decoder(name, config)
    parameters = sum(_parameters(name, file) for file in _weights(name, directory))
    if not (directory / "tokenizer.json").is_file():
        raise ModelRefused(name, "has no tokenizer.json", "Copy the tokenizer's files beside the weights")
    if not _has_template(name, directory):
        fix = "Use its instruction-tuned variant, or add a chat_template.jinja"
        raise ModelRefused(name, "has no chat template, so it cannot tell our rules from a customer's text", fix)
    return Facts(config, parameters)


def _json(name: str, directory: Path, file: str, fix: str) -> dict[str, Any]:
    path = directory / file
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelRefused(name, f"{directory} has no {file}", fix) from None
    except (OSError, ValueError) as error:
        raise ModelRefused(name, f"{file} cannot be read: {error}", _SAVE) from None
    if not isinstance(found, dict):
        raise ModelRefused(name, f"{file} holds no JSON object", _SAVE)
    return found


def _decoder(name: str, config: dict[str, Any]) -> None:
    architectures: list[str] = config.get("architectures") or []
    generates = any(each.endswith(("ForCausalLM", "LMHeadModel")) for each in architectures)
    if not generates or config.get("is_encoder_decoder") or str(config.get("model_type", "")).startswith("bert"):
        what = ", ".join(architectures) or "a model of no stated architecture"
        raise ModelRefused(name, f"is {what}, not a decoder that generates text", "Choose a ...ForCausalLM model")


def _weights(name: str, directory: Path) -> list[Path]:
    if (directory / "model.safetensors").is_file():
        return [directory / "model.safetensors"]
    if (directory / "model.safetensors.index.json").is_file():
        index = _json(name, directory, "model.safetensors.index.json", _SAVE)
        shards = sorted(set(index.get("weight_map", {}).values()))
        for shard in shards:
            if not (directory / shard).is_file():
                raise ModelRefused(name, f"lacks {shard}, which its index names", "Copy the missing shard")
        if shards:
            return [directory / shard for shard in shards]
    other = next((file.name for kind in ("*.bin", "*.gguf", "*.pt") for file in directory.glob(kind)), None)
    why = f"has its weights in {other}, not in safetensors" if other else "has no weights (model.safetensors)"
    raise ModelRefused(name, why, "Save it with save_pretrained(safe_serialization=True)" if other else _SAVE)


def _parameters(name: str, file: Path) -> int:
    size = file.stat().st_size
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
            raise ModelRefused(name, f"{file.name} is no whole safetensors file", _SAVE)
        try:
            header: dict[str, Any] = json.loads(handle.read(length))
            tensors = [entry for key, entry in header.items() if key != "__metadata__"]
            end = max(int(entry["data_offsets"][1]) for entry in tensors)
            bits = [_BITS.get(entry["dtype"], 8) for entry in tensors]
            sizes = [int(entry["data_offsets"][1]) - int(entry["data_offsets"][0]) for entry in tensors]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            raise ModelRefused(name, f"{file.name} has a broken header", _SAVE) from None
    if size < 8 + length + end:
        short = 8 + length + end - size
        raise ModelRefused(name, f"{file.name} is cut short by {short} bytes", "Copy it again, whole")
    return sum(size * 8 // width for size, width in zip(sizes, bits, strict=True))


def _has_template(name: str, directory: Path) -> bool:
    if (directory / "chat_template.jinja").is_file() or (directory / "chat_template.json").is_file():
        return True
    path = directory / "tokenizer_config.json"
    return path.is_file() and bool(_json(name, directory, path.name, _SAVE).get("chat_template"))
