"""A model of random weights, as large as one that a GPU is bought for: speed and memory need no sense in answers."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig


class Size(msgspec.Struct, frozen=True):
    """Of a Llama; as it stands some 1.1 billion parameters."""

    width: int = 2048
    inner: int = 8192
    layers: int = 16
    heads: int = 32
    kv_heads: int = 8


@contextmanager
def random_model(tokenizer_of: Path, device: str, size: Size = Size()) -> Generator[Path]:  # noqa: B008 - frozen
    """The directory of such a model in bfloat16, with the tokenizer of another; gone afterwards."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_of, local_files_only=True)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        max_position_embeddings=8192,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=True,
    )
    torch.manual_seed(1)
    with TemporaryDirectory(prefix="ticketmill-") as directory:
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        model.save_pretrained(directory)
        del model
        for file in tokenizer_of.iterdir():
            if file.name.startswith(("tokenizer", "special", "chat", "vocab", "merges")):
                shutil.copy(file, directory)
        yield Path(directory)
