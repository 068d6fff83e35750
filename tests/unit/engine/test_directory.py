"""A model that cannot serve is refused before anything is loaded, with what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ModelRefused
from workers.engine.models.catalogue import SUGGESTIONS
from workers.engine.models.directory import inspected

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}


def _safetensors(path: Path, numbers: int = 6) -> None:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [numbers], "data_offsets": [0, 2 * numbers]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2 * numbers))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    _safetensors(tmp_path / "model.safetensors")
    return tmp_path


def _shards(directory: Path, present: int) -> None:
    (directory / "model.safetensors").unlink()
    files = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    for file in list(files.values())[:present]:
        _safetensors(directory / file)


def test_a_whole_directory_passes_and_its_parameters_are_counted(whole: Path) -> None:
    assert inspected("m", whole).parameters == 6
    _shards(whole, 2)
    assert inspected("m", whole).parameters == 12


def test_the_template_may_lie_in_the_tokenizers_config(whole: Path) -> None:
    (whole / "chat_template.jinja").unlink()
    (whole / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    assert inspected("m", whole).parameters == 6


def _config(**changes: Any) -> Callable[[Path], object]:
    return lambda directory: (directory / "config.json").write_text(json.dumps({**CONFIG, **changes}))


def _without(*names: str) -> Callable[[Path], object]:
    return lambda directory: [(directory / name).unlink() for name in names]


def _cut(size: int) -> Callable[[Path], object]:
    def cut(directory: Path) -> None:
        weights = directory / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:size])

    return cut


def _broken_header(directory: Path) -> None:
    (directory / "model.safetensors").write_bytes((9).to_bytes(8, "little") + b"[1, 2, 3]" * 9)


def _pickled(directory: Path) -> None:
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("harm", "why", "fix"),
    [
        (_without("config.json"), "has no config.json", "Point models"),
        (lambda d: (d / "config.json").write_text("{"), "config.json cannot be read", "save_pretrained"),
        (lambda d: (d / "config.json").write_text("[]"), "holds no JSON object", "save_pretrained"),
        (_config(architectures=["BertForMaskedLM"]), "is BertForMaskedLM, not a decoder", "ForCausalLM"),
        (_config(architectures=["T5ForConditionalGeneration"]), "not a decoder", "ForCausalLM"),
        (_config(architectures=["BertLMHeadModel"], model_type="bert"), "not a decoder", "ForCausalLM"),
        (_config(architectures=None), "no stated architecture", "ForCausalLM"),
        (_without("model.safetensors"), "has no weights", "save_pretrained"),
        (_pickled, "weights in pytorch_model.bin", "safe_serialization"),
        (_cut(-3), "cut short by 3 bytes", "Copy it again"),
        (_cut(4), "no whole safetensors file", "copy it again"),
        (_cut(30), "no whole safetensors file", "copy it again"),
        (_broken_header, "broken header", "copy"),
        (lambda d: _shards(d, 1), "lacks model-2.safetensors", "missing shard"),
        (_without("tokenizer.json"), "has no tokenizer.json", "tokenizer's files"),
        (_without("chat_template.jinja"), "has no chat template", "instruction-tuned"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(whole: Path, harm: Callable[[Path], object], why: str, fix: str) -> None:
    harm(whole)
    with pytest.raises(ModelRefused) as refused:
        inspected("m", whole)
    assert why in refused.value.why
    assert fix in refused.value.fix
    assert "\n" not in str(refused.value)


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="is not a directory"):
        inspected("m", tmp_path / "nothing")


def test_suggested_models_say_what_memory_they_take() -> None:
    for each in SUGGESTIONS:
        assert each.parameters_b * 2 < each.memory_gb(2) < each.memory_gb(4)
    assert any("Chinese" in each.languages for each in SUGGESTIONS)
