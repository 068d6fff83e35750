"""``ticketmill demo``, with an engine that answers at once: the way through every room, without the model's time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ground.process import Process


@pytest.mark.xdist_group("up")
def test_every_ticket_of_the_demo_ends_and_can_be_looked_at_afterwards(
    process: Callable[..., Process], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    running = process("ops.cli", "demo", "--home", home, env={"TICKETMILL_WORKER_ENGINE": "noop"})
    assert running.wait(120) == 0, running.output()
    shown = running.output()
    assert all(figure in shown for figure in ("all settled", "tickets/s", "p50", "p95", "batch size over time"))
    (config,) = {word for word in shown.split() if word.endswith("ticketmill.yaml")}
    answers = process("ops.cli", "answers", "--format", "jsonl", "-c", config, env={"TICKETMILL_HOME": str(home)})
    assert answers.wait(60) == 0
    lines = [json.loads(line) for line in answers.output().splitlines()]
    assert len(lines) == len({line["id"] for line in lines}) == 80
