"""Answers that are drawn: various, but the same again for the same ticket and seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch

from schemas.job import Job
from schemas.ticket import Ticket
from tests.integration.engine.conftest import answered, opened, ticket
from workers.engine.sampling import Sampler
from workers.ports import Completed

DRAWN = Job(system="You answer customers.", max_new_tokens=12, temperature=1.0)


def texts(directory: Path, tickets: list[Ticket], job: Job) -> dict[str, str]:
    engine = opened(directory, {"reply": job}, directory)
    ended = answered(engine, tickets, {"reply": job})
    engine.close()
    found: dict[str, str] = {}
    for name, each in ended.items():
        assert isinstance(each, Completed)
        found[name] = each.answer.text
    return found


def test_a_ticket_is_answered_the_same_way_again_whoever_sits_beside_it(model_of_kind: Callable[[str], Path]) -> None:
    directory = model_of_kind("llama")
    tickets = [ticket(f"t{n}", "Where is my card?", "reply") for n in range(6)]
    together = texts(directory, tickets, DRAWN)
    assert len(set(together.values())) == 6
    for each in tickets[:2]:
        assert texts(directory, [each], DRAWN)[each.id] == together[each.id]
    other = texts(directory, tickets, msgspec.structs.replace(DRAWN, seed=1))
    assert all(other[name] != together[name] for name in together)
    greedy = texts(directory, tickets, msgspec.structs.replace(DRAWN, temperature=0.0))
    assert len(set(greedy.values())) == 1


@pytest.mark.parametrize(("top_p", "kept"), [(1.0, {0, 1, 2}), (0.75, {0, 1}), (0.4, {0})])
def test_only_the_likeliest_are_drawn_and_each_as_often_as_its_share(top_p: float, kept: set[int]) -> None:
    sampler = Sampler(msgspec.structs.replace(DRAWN, top_p=top_p), "t")
    logits = torch.tensor([0.5, 0.3, 0.2, 0.0]).log()
    drawn = Counter(sampler.pick(logits) for _ in range(3000))
    assert set(drawn) == kept
    whole = sum([0.5, 0.3, 0.2][token] for token in kept)
    for token in kept:
        assert drawn[token] / 3000 == pytest.approx([0.5, 0.3, 0.2][token] / whole, abs=0.04)


def test_a_higher_temperature_makes_the_unlikely_likelier() -> None:
    logits = torch.tensor([2.0, 0.0])
    found = [
        sum(Sampler(msgspec.structs.replace(DRAWN, temperature=heat), f"t{n}").pick(logits) for n in range(800))
        for heat in (0.5, 1.0, 2.0)
    ]
    assert found == sorted(found)
    assert found[0] < found[2] / 2
