"""Policies of batch size through the same day: how many answers come within their deadline, and at what cost.

The load is set by the engine, not by a policy: at noon tickets come at a share of what the device answers with all the
slots that it may be given, and before and after that 12.7 times more slowly. A policy that never uses those slots
cannot keep up at noon; where the burst is small enough for eight slots there is nothing to gain, and the rows say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from ops.bench.cost import Cost, cost_of_this_machine
from ops.bench.replay import BURST, DAY_S, Day, Device, Outcome, Replay, day_of, tickets_at
from ops.bench.report import Report, Row, machine
from schemas.settings import BatchSettings
from workers.policy.batch_size import cap_of

DEADLINE_S = 60.0
"""Within which an answer is worth something: a customer who chats still waits."""
PEAK = 0.9
"""The burst's rate, as a share of what the device answers with all its slots: a fleet is bought for its peak."""
BURST_S = 7200.0
SEEDS = (1, 2, 3)
FULL = 2000
"""Tickets that are there at once when the most that the device answers is measured."""

PEAKS = (0.6, 0.75, 1.05)
BURSTS_S = (1800.0, 14_400.0)
"""What else the load might be."""

ROOMY = Device(name="roomy", total_bytes=24 * 2**30, other_bytes=4 * 2**30)
"""A machine without a GPU: memory is never short."""
TIGHT_KV_TOKENS = 2300
"""Of the other device: a shared prefix and fifteen rows of average length; rows differ widely in length."""

POLICIES = {
    "fixed 8": BatchSettings(policy="fixed"),
    "printed": BatchSettings(policy="printed"),
    "mended": BatchSettings(policy="mended"),
    "aimd": BatchSettings(policy="aimd"),
    "gradient": BatchSettings(policy="gradient"),
}
"""Each with the settings' own values: start 8, steps of at most 4, 30 s between two, p95 of a step 1 s."""


def bench_sizing(home: Path, *, quick: bool, note: Callable[[str], None]) -> Report:
    """Replays days through every policy.

    Args:
        home: where the packaged model lies, whose steps are taken to fit the costs.
        quick: one seed, and no other loads.
    """
    note("taking steps of the engine")
    cost, missing = cost_of_this_machine(home)
    seeds = SEEDS[:1] if quick else SEEDS
    most = most_per_s(cost, cap_of(ROOMY.total_bytes))
    rows: list[Row] = []
    for seed in seeds:
        day = day_of(PEAK * most / BURST, BURST_S, seed)
        for device, foreseen in ((ROOMY, True), (_tight(cost), True), (_tight(cost), False)):
            note(f"a day on a {device.name} device, seed {seed}{'' if foreseen else ', memory not foreseen'}")
            rows += [
                _row(
                    name, _Load(PEAK, BURST_S, seed, device, foreseen), day, _replay(day, cost, device, each, foreseen)
                )
                for name, each in _policies(device).items()
            ]
    if not quick:
        rows += _other_loads(cost, most, note)
    return Report(
        bench="sizing",
        machine=machine() | {f"cost_{key}": value for key, value in msgspec.structs.asdict(cost).items()},
        figures=_figures(rows, most),
        rows=rows,
        left_out=[missing] if missing else [],
    )


def most_per_s(cost: Cost, slots: int) -> float:
    """Answers a second with so many slots that are never empty."""
    at_once = tickets_at(np.zeros(FULL), np.random.default_rng(0))
    outcome = _replay(at_once, cost, ROOMY, BatchSettings(policy="fixed", start=slots), True)
    return FULL / float(outcome.waits_s.max())


class _Load(msgspec.Struct, frozen=True):
    peak: float
    burst_s: float
    seed: int
    device: Device
    foreseen: bool


def _tight(cost: Cost) -> Device:
    kv_bytes = TIGHT_KV_TOKENS * cost.kv_bytes_per_token
    return Device(name="tight", total_bytes=kv_bytes * 8 // 7, other_bytes=kv_bytes * 8 // 7 - kv_bytes)


def _policies(device: Device) -> dict[str, BatchSettings]:
    cap = cap_of(device.total_bytes)
    return POLICIES | {f"fixed {cap}": BatchSettings(policy="fixed", start=cap)}


def _replay(day: Day, cost: Cost, device: Device, settings: BatchSettings, foreseen: bool) -> Outcome:
    return Replay(day, cost, device, settings, foreseen=foreseen).run()


def _other_loads(cost: Cost, most: float, note: Callable[[str], None]) -> Iterator[Row]:
    ours = _name_of_default()
    for peak, burst_s in [*((peak, BURST_S) for peak in PEAKS), *((PEAK, burst_s) for burst_s in BURSTS_S)]:
        note(f"a burst of {burst_s / 60:.0f} minutes at {peak:.0%} of what the device answers")
        day = day_of(peak * most / BURST, burst_s, SEEDS[0])
        for name in ("fixed 8", "printed", ours):
            outcome = _replay(day, cost, ROOMY, POLICIES[name], True)
            yield _row(name, _Load(peak, burst_s, SEEDS[0], ROOMY, True), day, outcome)


def _row(policy: str, load: _Load, day: Day, outcome: Outcome) -> Row:
    p50, p95, p99 = (round(float(each), 2) for each in np.percentile(outcome.waits_s, (50, 95, 99)))
    in_time = outcome.in_time(DEADLINE_S)
    return {
        "policy": policy,
        "device": load.device.name,
        "foreseen": "yes" if load.foreseen else "no",
        "peak": load.peak,
        "burst_s": load.burst_s,
        "seed": load.seed,
        "tickets": len(day.arrive_s),
        "in_time": in_time,
        "goodput": round(in_time / len(day.arrive_s), 4),
        "p50_s": p50,
        "p95_s": p95,
        "p99_s": p99,
        "oom_events": outcome.out_of_memory,
        "failed": outcome.failed,
        "turns_per_hour": round(outcome.turns_per_hour(DAY_S), 3),
        "most_slots": max(size for _, size in outcome.sizes),
    }


def _name_of_default() -> str:
    return next(name for name, settings in POLICIES.items() if settings == BatchSettings())


def _figures(rows: list[Row], most: float) -> dict[str, float]:
    main = [row for row in rows if (row["device"], row["peak"], row["burst_s"]) == ("roomy", PEAK, BURST_S)]

    def of(policy: str) -> list[float]:
        return [float(row["in_time"]) for row in main if row["policy"] == policy]

    def ratio(other: str) -> float:
        return round(median(one / two for one, two in zip(of(ours), of(other), strict=True)), 3)

    ours = _name_of_default()
    met = [row for row in rows if row["policy"] == ours and row["foreseen"] == "yes"]
    return {
        "default_goodput_vs_fixed8": ratio("fixed 8"),
        "default_goodput_vs_printed": ratio("printed"),
        "default_goodput_vs_all_slots": ratio(f"fixed {cap_of(ROOMY.total_bytes)}"),
        "default_oom_events": sum(float(row["oom_events"]) for row in met),
        "default_turns_per_hour": max(float(row["turns_per_hour"]) for row in met),
        "most_per_s": round(most, 3),
    }
