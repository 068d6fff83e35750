"""In float32 a row in a batch answers word for word what transformers answers to it alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from schemas.errors import ModelRefused
from schemas.job import Job
from schemas.ticket import Ticket
from tests.ground.real_text import Rows
from tests.integration.engine.conftest import answered, opened, ticket
from workers.engine.attention import plain_attention
from workers.engine.networks.llama import LlamaNetwork
from workers.engine.networks.stock import StockNetwork
from workers.ports import Completed

JOBS = {
    "reply": Job(system="You answer customers. " * 9, max_new_tokens=17),
    "short": Job(system="Be brief.", template="{subject}: {body} ({language})", max_new_tokens=5),
    "long": Job(system="Say all there is to say.", max_new_tokens=30),
}
BODIES = ["Where is my card?", "x", "我的卡在哪里？\n\n" * 5, "The same again and again. " * 12, "Zahlung {body} 🙂"]


@pytest.fixture
def tickets() -> list[Ticket]:
    return [
        ticket(f"{job}-{round}-{at}", body * (round + 1), job, subject="Card" * round)
        for round in range(2)
        for at, body in enumerate(BODIES)
        for job in JOBS
    ]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral", "gpt_neox"])
def test_mixed_jobs_in_shared_slots_answer_as_each_ticket_alone(
    kind: str, model_of_kind: Callable[[str], Path], tickets: list[Ticket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.engine.local._STEP_TOKENS", {"cpu": 48})  # so that most prompts take several steps
    directory = model_of_kind(kind)
    engine = opened(directory, JOBS, directory)
    ended = answered(engine, tickets, JOBS)
    for each in tickets:
        done = ended[each.id]
        assert isinstance(done, Completed)
        assert done.answer.text in _alone(directory, each), each.id
    load = engine.load()
    assert 0 < load.reused_tokens < load.prompt_tokens
    assert 0 < load.useful_slot_steps <= load.slot_steps


def test_the_attention_that_any_device_can_compute_answers_the_same(
    model_of_kind: Callable[[str], Path], tickets: list[Ticket], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = model_of_kind("llama")
    fused = answered(opened(directory, JOBS, directory), tickets, JOBS)
    monkeypatch.setattr("workers.engine.layout.attention", plain_attention)
    plain = answered(opened(directory, JOBS, directory), tickets, JOBS)
    assert plain == fused


def test_each_family_is_computed_by_the_network_made_for_it(model_of_kind: Callable[[str], Path]) -> None:
    from schemas.model import ModelSettings
    from workers.engine.models.loading import load_model

    for kind, network in (("qwen3", LlamaNetwork), ("gpt_neox", StockNetwork)):
        directory = model_of_kind(kind)
        model = load_model(ModelSettings(path=str(directory), dtype="float32", device="cpu"), directory)
        assert type(model.network) is network


def test_a_model_whose_attention_is_not_plain_softmax_is_refused(model_of_kind: Callable[[str], Path]) -> None:
    directory = model_of_kind("gemma2")
    with pytest.raises(ModelRefused, match="attention of a kind that cannot be batched"):
        opened(directory, JOBS, directory)


def test_the_packaged_model_answers_real_tickets_as_it_does_alone(
    packaged: Path, real_tickets: Callable[..., Rows]
) -> None:
    rows = real_tickets("tickets_en")[::700] + real_tickets("tickets_zh")[::400]
    jobs = {"reply": Job(system="You are a support agent. Answer briefly and politely.", max_new_tokens=16)}
    tickets = [ticket(row["id"], row["text"], "reply") for row in rows]
    ended = answered(opened("smollm2-135m-instruct", jobs, packaged), tickets, jobs, slots=4)
    directory = next(packaged.glob("models/smollm2-135m-instruct-*"))
    for each in tickets:
        done = ended[each.id]
        assert isinstance(done, Completed)
        assert done.answer.text in _alone(directory, each, jobs)


_loaded: dict[Path, tuple[Any, Any]] = {}


def _alone(directory: Path, asked: Ticket, jobs: dict[str, Job] = JOBS) -> set[str]:
    """What transformers generates for one ticket, greedily: as it is, and without a character cut off by the limit."""
    if directory not in _loaded:
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        _loaded[directory] = AutoTokenizer.from_pretrained(directory), model
    tokenizer, model = _loaded[directory]
    job = jobs[asked.job]
    message = job.template.format(subject=asked.subject, body=asked.body, language=asked.language).strip()
    messages = [{"role": "system", "content": job.system}, {"role": "user", "content": message}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    made = model.generate(**prompt, max_new_tokens=job.max_new_tokens, do_sample=False)
    text = tokenizer.decode(made[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True).strip()
    return {text, text.removesuffix("\ufffd")}
