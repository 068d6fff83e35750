"""Small models of random weights in real directories, and the packaged model where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from schemas.job import Job
from schemas.model import ModelSettings
from schemas.ticket import Ticket
from workers.engine.local import LocalEngine
from workers.ports import Completed, Failed, Work

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SAMPLE = ["Where is my card? I want it, now!", '{"category":"billing","priority":"urgent"}', "我的卡在哪里？", "en zh"]

_SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "head_dim": 16,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}
KINDS: dict[str, Callable[[int], Any]] = {
    "llama": lambda words: LlamaConfig(vocab_size=words, tie_word_embeddings=True, **_SIZES),
    "qwen2": lambda words: Qwen2Config(vocab_size=words, **_SIZES),
    "qwen3": lambda words: Qwen3Config(vocab_size=words, **_SIZES),
    "mistral": lambda words: MistralConfig(vocab_size=words, **{**_SIZES, "sliding_window": None}),
    "gpt_neox": lambda words: GPTNeoXConfig(vocab_size=words, **_SIZES),
    "gemma2": lambda words: Gemma2Config(
        vocab_size=words, **_SIZES, attn_logit_softcapping=0.5, query_pre_attn_scalar=16
    ),
}


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes and a few merges, with ChatML's tokens."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    inner.train_from_iterator(
        SAMPLE * 20, trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    )
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=special[0], eos_token=special[1])
    made.chat_template = TEMPLATE
    return made


@pytest.fixture(scope="session")
def model_of_kind(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerFast
) -> Callable[[str], Path]:
    """A directory with a small model of an architecture."""

    def make(kind: str) -> Path:
        directory = tmp_path_factory.mktemp(kind)
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(KINDS[kind](len(tokenizer)))
        for weights in model.parameters():  # the usual start is so near zero that every next token is the same
            if weights.dim() > 1:
                torch.nn.init.normal_(weights, std=0.12)
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        return directory

    return make


def opened(path: Path | str, jobs: dict[str, Job], home: Path, context: int | None = None) -> LocalEngine:
    """An engine in float32 on one thread, so that its answers can be compared."""
    model = ModelSettings(path=str(path), dtype="float32", device="cpu", threads=1, context=context)
    return LocalEngine({"default": model}, jobs, home)


def ticket(name: str, body: str, job: str, subject: str = "") -> Ticket:
    """A ticket with a text."""
    when = datetime(2030, 1, 1, tzinfo=UTC)
    return Ticket(id=name, tenant="acme", received_at=when, body=body, subject=subject, job=job)


def answered(
    engine: LocalEngine, tickets: list[Ticket], jobs: dict[str, Job], slots: int = 6
) -> dict[str, Completed | Failed]:
    """Runs tickets through so many slots, each refilled as soon as it is free."""
    coming, ended = list(tickets), dict[str, Completed | Failed]()
    for _ in range(100_000):
        while coming and engine.running < slots:
            engine.add(Work(ticket=coming[0], job=jobs[coming.pop(0).job]))
        if not engine.running:
            break
        for each in engine.step():
            assert each.ticket_id not in ended
            ended[each.ticket_id] = each
    assert set(ended) == {each.id for each in tickets}
    return ended
