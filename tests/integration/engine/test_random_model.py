"""The model of random weights that benchmarks on GPUs make for themselves, at a size that a CPU bears."""

from __future__ import annotations

from pathlib import Path

from ops.bench.answering import answered, endless
from ops.bench.random_model import Size, random_model
from schemas.job import Job
from schemas.model import ModelSettings
from tests.integration.engine.conftest import ticket
from workers.engine.models.loading import load_model
from workers.engine.models.packaged import packaged_model
from workers.ports import Work


def test_it_answers_as_long_as_it_is_told(packaged: Path) -> None:
    with random_model(packaged_model(packaged), "cpu", Size(64, 96, 2, 4, 2)) as directory:
        model = load_model(ModelSettings(path=str(directory), dtype="bfloat16", device="cpu"), packaged)
    assert not directory.exists()
    job = Job(system="You answer customers.", max_new_tokens=9)
    load = [Work(ticket=ticket(str(at), "Hello", "reply"), job=job) for at in range(5)]
    assert answered(endless(model), load, slots=2).reused_prompt > 0  # it raises where an answer is shorter or longer
