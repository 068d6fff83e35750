"""The replayed day: what it counts must be what went in."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ops.bench.cost import COMMITTED, Step, fitted
from ops.bench.replay import Device, Outcome, Replay, day_of, tickets_at
from ops.bench.sizing import ROOMY, most_per_s
from schemas.settings import BatchSettings

FIXED = BatchSettings(policy="fixed")


@pytest.mark.parametrize("policy", ["fixed", "printed", "mended", "aimd", "gradient"])
@pytest.mark.parametrize("foreseen", [True, False])
@pytest.mark.parametrize("kv_tokens", [900, 2300, 100_000])
def test_every_ticket_ends_once(policy: str, foreseen: bool, kv_tokens: int) -> None:
    day = tickets_at(np.sort(np.random.default_rng(3).uniform(0, 400, 800)), np.random.default_rng(4))
    kv_bytes = kv_tokens * COMMITTED.kv_bytes_per_token
    device = Device(name="test", total_bytes=kv_bytes * 8 // 7, other_bytes=kv_bytes // 7)
    settings = msgspec.convert({"policy": policy}, BatchSettings)
    outcome = Replay(day, COMMITTED, device, settings, foreseen=foreseen).run()
    assert len(outcome.waits_s) + outcome.failed == 800
    assert (outcome.waits_s > 0).all()


def test_one_ticket_alone_takes_as_long_as_its_steps() -> None:
    day = tickets_at(np.array([5.0]), np.random.default_rng(1))
    outcome = Replay(day, COMMITTED, ROOMY, FIXED, foreseen=True).run()
    prompt, answer = int(day.prompt[0]), int(day.answer[0])
    by_hand = COMMITTED.step_s(0, 0, prompt) + sum(COMMITTED.step_s(1, prompt + made, 0) for made in range(1, answer))
    assert outcome.waits_s[0] == pytest.approx(by_hand)


def test_more_slots_answer_more_and_a_day_bursts_at_noon() -> None:
    assert most_per_s(COMMITTED, 4) < most_per_s(COMMITTED, 8) < most_per_s(COMMITTED, 16)
    at = day_of(0.5, 7200, 1).arrive_s
    noon = ((at >= 43_200) & (at < 50_400)).sum() / 7200
    morning = (at < 43_200).sum() / 43_200
    assert noon / morning == pytest.approx(12.7, rel=0.05)


def test_turns_are_changes_of_direction() -> None:
    sizes = [(0.0, 8), (1.0, 12), (2.0, 16), (3.0, 8), (4.0, 12)]
    outcome = Outcome(waits_s=np.array([1.0, 9.0]), out_of_memory=0, failed=0, sizes=sizes)
    assert outcome.turns_per_hour(7200) == 1.0
    assert outcome.in_time(2) == 1


def test_the_line_is_the_one_that_the_steps_lie_on() -> None:
    steps = [
        Step(rows, context, prompt, 0.04 + 0.001 * rows + 1e-5 * context + 4e-4 * prompt)
        for rows, context, prompt in ((1, 10, 0), (8, 900, 0), (16, 200, 32), (0, 0, 256), (4, 800, 100))
    ]
    cost = fitted(steps, 100, "made up")
    assert (cost.fixed_s, cost.row_s, cost.context_s, cost.prompt_s) == pytest.approx((0.04, 0.001, 1e-5, 4e-4))
    assert cost.error == 0
