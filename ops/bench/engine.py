"""The engine against transformers, one after the other: same model, type, prompts, answer lengths. Then its caches."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from ops.bench.report import Report, Row, machine, median_ratio
from ops.bench.tickets import lengths_of, load_of
from schemas.errors import SettingRefused

if TYPE_CHECKING:
    from ops.bench.answering import Shares
    from ops.bench.peers import Peer
    from workers.engine.models.loading import Model
    from workers.ports import Work

Device = Literal["cpu", "cuda"]

SLOTS = 16
STATIC_ROWS = 8
TICKETS, QUICK_TICKETS = 144, 8
ROUNDS = 3
"""Of the full run. Every way has its turn in each, so that the machine's moods cancel out."""
ALONE, QUICK_ALONE = 3, 1
"""Tickets answered one at a time, by us and by ``generate``."""


def bench_engine(home: Path, device: Device, *, quick: bool, note: Callable[[str], None]) -> Report:
    """Answers the same tickets in several ways, all in bfloat16.

    On a CPU it is the packaged model on one thread; on a GPU, which that would not fill, one of random weights.

    Args:
        home: where the packaged model lies.
        quick: few tickets, once: slots then stand empty for much of the time, and the ratios mean little.

    Raises:
        BenchFailed: a way made fewer or more tokens than were asked for.
        ModelRefused: the model is not there.
        SettingRefused: TICKETMILL_DATA names no tickets, or the device is not there.
    """
    load = load_of(QUICK_TICKETS if quick else TICKETS)  # before anything large is loaded
    import torch

    from ops.bench.kv import FULL, QUICK, bench_kv
    from ops.bench.peers import Peer
    from ops.bench.random_model import random_model
    from schemas.model import ModelSettings
    from workers.engine.models.loading import load_model
    from workers.engine.models.packaged import packaged_model

    if device == "cuda" and not torch.cuda.is_available():
        raise SettingRefused("device", "is cuda, and torch sees no such device")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    packaged = packaged_model(home)
    try:
        with random_model(packaged, "cuda") if device == "cuda" else nullcontext(packaged) as directory:
            note("loading the model, for us and for transformers")
            model = load_model(ModelSettings(path=str(directory), device=device, dtype="bfloat16"), home)
            peer = Peer(directory, model.dtype, model.device)
        rows = _answers(model, peer, load, quick, note)
        kv_figures, kv_rows = bench_kv(model, QUICK if quick else FULL, note)
    finally:
        torch.set_num_threads(threads)
    left_out = ["costs of the KV schemes: leave --quick out"] if quick else []
    facts: dict[str, str | int | float] = {"device": device, "dtype": "bfloat16", "threads": 1}
    facts |= {"slots": SLOTS, "answer_tokens": sum(lengths_of(load)), "longest_answer": max(lengths_of(load))}
    return Report(
        bench="engine",
        machine=machine() | facts,
        figures=_figures(rows) | kv_figures,
        rows=rows + kv_rows,
        left_out=left_out,
    )


def _answers(model: Model, peer: Peer, load: list[Work], quick: bool, note: Callable[[str], None]) -> list[Row]:
    from ops.bench.answering import answered, endless, prompts_of

    lengths, prompts = lengths_of(load), prompts_of(model, load)
    alone = sorted(load, key=lambda work: work.job.max_new_tokens)[len(load) * 3 // 4 :]
    engine = endless(model)
    note("warming up")
    answered(engine, load[:SLOTS], SLOTS)
    peer.static(prompts[:2], [2, 2], 2)
    rows: list[Row] = []
    for number in range(1, 1 + (1 if quick else ROUNDS)):
        note(f"round {number}: the engine with {SLOTS} slots")
        rows.append(_row("engine", number, len(load), lambda: answered(engine, load, SLOTS)))
        note(f"round {number}: generate in static batches of {STATIC_ROWS}")
        rows.append(_row("static8", number, len(load), lambda: peer.static(prompts, lengths, STATIC_ROWS)))
        note(f"round {number}: transformers' continuous batching")
        rows.append(_row("hf_continuous", number, len(load), lambda: peer.continuous(prompts, lengths)))
        note(f"round {number}: tickets alone")
        for work in alone[: QUICK_ALONE if quick else ALONE]:
            prompt, length, fresh = prompts_of(model, [work]), lengths_of([work]), endless(model)
            rows.append(_row("engine_alone", number, 1, lambda fresh=fresh, work=work: answered(fresh, [work], 1)))
            rows.append(
                _row("generate", number, 1, lambda prompt=prompt, length=length: peer.static(prompt, length, 1))
            )
    return rows


def _row(way: str, number: int, answers: int, run: Callable[[], Shares | None]) -> Row:
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    began_s = time.perf_counter()
    shares = run()
    seconds = time.perf_counter() - began_s
    return {
        "way": way,
        "round": number,
        "answers": answers,
        "seconds": round(seconds, 3),
        "answers_per_s": round(answers / seconds, 3),
        "useful_slot_share": shares.useful_slots if shares else "",
        "prefix_hit_rate": shares.reused_prompt if shares else "",
        "device_peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else "",
    }


def _figures(rows: list[Row]) -> dict[str, float]:
    def of(way: str, column: str = "answers_per_s") -> list[float]:
        return [float(row[column]) for row in rows if row["way"] == way]

    return {
        "answers_vs_static8": median_ratio(of("engine"), of("static8")),
        "answers_vs_hf_continuous": median_ratio(of("engine"), of("hf_continuous")),
        "single_vs_generate": median_ratio(of("engine_alone"), of("generate")),
        "answers_per_s": round(median(of("engine")), 3),
        "useful_slot_share": round(median(of("engine", "useful_slot_share")), 4),
        "prefix_hit_rate": round(median(of("engine", "prefix_hit_rate")), 4),
    }
