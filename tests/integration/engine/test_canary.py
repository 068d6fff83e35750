"""A scheme of the KV cache that ruins a model is refused, with the number, and its jobs are served all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from schemas.job import Job, KVCache
from tests.ground.real_text import Rows
from tests.integration.engine.conftest import answered, opened, ticket


def test_keys_too_large_for_sixteen_bits(
    model_of_kind: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    directory = model_of_kind("llama")
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    for layer in model.model.layers:
        layer.self_attn.k_proj.weight.data *= 1e6
        layer.self_attn.q_proj.weight.data /= 1e6
    model.save_pretrained(directory)
    tickets = [ticket(str(at), "Where is my card? " * at, "reply") for at in range(1, 6)]
    texts: list[list[str]] = []
    for scheme in (KVCache.FULL, KVCache.FP16, KVCache.INT8):
        jobs = {"reply": Job(system="You answer customers.", max_new_tokens=12, kv_cache=scheme)}
        ended = answered(opened(directory, jobs, directory), tickets, jobs)
        texts.append([each.answer.text for _, each in sorted(ended.items())])  # pyright: ignore[reportAttributeAccessIssue] - a failure is shown as well
    assert texts[1] == texts[0]
    [refusal] = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert refusal.startswith("kv_cache fp16 is refused for model")
    assert "perplexity +nan %" in refusal
    assert refusal.endswith("its jobs are served with kv_cache full")


def test_the_packaged_model_bears_every_scheme(
    packaged: Path, real_tickets: Callable[..., Rows], caplog: pytest.LogCaptureFixture
) -> None:
    jobs = {
        scheme.value: Job(system="Answer briefly and politely.", max_new_tokens=4, kv_cache=scheme)
        for scheme in KVCache
    }
    engine = opened("smollm2-135m-instruct", jobs, packaged)
    rows = real_tickets("tickets_en")[::700]
    answered(engine, [ticket(f"{row['id']}-{name}", row["text"], name) for row in rows for name in jobs], jobs)
    assert "refused" not in caplog.text
