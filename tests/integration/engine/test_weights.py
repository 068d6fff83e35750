"""Weights in fewer bits: the packaged model still sorts and answers, in less memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.errors import ModelRefused
from schemas.job import Job
from schemas.model import ModelSettings
from schemas.shipped_jobs import SHIPPED_JOBS
from tests.ground.real_text import Rows
from tests.integration.engine.conftest import answered, ticket
from workers.engine.local import LocalEngine
from workers.ports import Completed

JOBS = {"triage": SHIPPED_JOBS["triage"], "reply": Job(system="Answer briefly and politely.", max_new_tokens=8)}


@pytest.mark.parametrize("weights", ["int8", "nf4"])
def test_the_packaged_model_answers(weights: str, packaged: Path, real_tickets: Callable[..., Rows]) -> None:
    pytest.importorskip("bitsandbytes", reason="an optional package")
    settings = ModelSettings(weights=weights, dtype="float32", device="cpu", threads=1)  # pyright: ignore[reportArgumentType] - one of its two words
    engine = LocalEngine({"default": settings}, JOBS, packaged)
    rows = real_tickets("tickets_en")[::900]
    tickets = [ticket(f"{row['id']}-{job}", row["text"], job) for row in rows for job in JOBS]
    for each in answered(engine, tickets, JOBS).values():
        assert isinstance(each, Completed)
        assert each.answer.text


def test_a_missing_package_is_named(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        return None

    monkeypatch.setattr("workers.engine.models.quantization.find_spec", absent)
    with pytest.raises(ModelRefused, match="bitsandbytes is not installed"):
        LocalEngine({"default": ModelSettings(weights="nf4", device="cpu")}, JOBS, packaged)
