"""What each scheme of the KV cache saves, what it does to the model, and what it costs in speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ops.bench.report import BenchFailed, Row
from ops.bench.tickets import LENGTH, english_tickets, long_load, long_tickets, texts_of
from schemas.job import KVCache
from schemas.shipped_jobs import SHIPPED_JOBS
from schemas.ticket import Ticket
from workers.engine.batch import RunningBatch
from workers.engine.cache.schemes import KEEP, room_for
from workers.engine.local import running_batch
from workers.engine.models.loading import Model
from workers.engine.pruning import RECENT, SINKS
from workers.engine.quality import Reading, perplexity_increase, read
from workers.engine.scheduler import kept
from workers.ports.engine import Completed, Work

SLOTS = 16
BUDGET_BYTES = 2**30
STEP_TOKENS = 256
Labels = dict[KVCache, list[dict[str, Any]]]
"""What each scheme's answers to the same tickets say."""

BEST = KVCache.INT3
"""The scheme that saves most without dropping tokens."""


class Size(NamedTuple):
    """How much is measured: texts that are read, their tokens, tickets that are sorted, and answered for speed."""

    texts: int
    length: int
    sorted: int
    answered: int
    rounds: int


FULL, QUICK = Size(8, LENGTH, 200, 32, 3), Size(1, 240, 4, 0, 0)


def bench_kv(model: Model, size: Size, note: Callable[[str], None]) -> tuple[dict[str, float], list[Row]]:
    """Figures, and a row for each scheme. Texts are read as rows without a prefix, so that all of them is compressed.

    Triage agreement is the share of labels that are the same as with ``full``, on tickets of some 100 to 200 tokens;
    the usual ones are so short that a scheme leaves most of them as they are.
    ``cost``: share of tokens a second lost against ``full`` where every row has some 350 tokens of its own to read.
    """
    texts = texts_of(model.tokenizer, size.texts, size.length)
    readings = {scheme: _read(model, scheme, texts, note) for scheme in KVCache}
    long: Labels = {}
    usual: Labels = {}
    for scheme in KVCache:
        note(f"kv_cache {scheme.value}: sorting twice {size.sorted} tickets")
        batch = running_batch(model, 2, scheme)
        long[scheme] = _sorted(batch, long_tickets(size.sorted))
        usual[scheme] = _sorted(batch, english_tickets(size.sorted))
    costs = _costs(model, size, note)
    rows = [_row(model, scheme, readings, long, usual, costs.get(scheme)) for scheme in KVCache]
    by_name = {row["kv_cache"]: row for row in rows}
    figures: dict[str, float] = {}
    for name, scheme in (("int8", KVCache.INT8), ("int4", KVCache.INT4), ("best", BEST)):
        figures[f"{name}_saved_vs_fp16"] = float(by_name[scheme.value]["saved_vs_fp16"])
        figures[f"{name}_perplexity_increase"] = float(by_name[scheme.value]["perplexity_increase"])
    figures["sparse_triage_agreement"] = float(by_name["sparse"]["triage_agreement"])
    figures["sparse_triage_agreement_usual"] = float(by_name["sparse"]["triage_agreement_usual"])
    figures["sparse_perplexity_increase"] = float(by_name["sparse"]["perplexity_increase"])
    return figures | {f"{scheme.value}_cost": cost for scheme, cost in costs.items()}, rows


def _read(model: Model, scheme: KVCache, texts: Sequence[list[int]], note: Callable[[str], None]) -> Reading:
    """All texts through one scheme. Sparse is judged by what follows the part that it pruned."""
    note(f"kv_cache {scheme.value}: reading {len(texts)} texts of {len(texts[0])} tokens")
    room = room_for(scheme, model.network.shape, BUDGET_BYTES, LENGTH, STEP_TOKENS, model.dtype, model.device)
    keep = KEEP if scheme is KVCache.SPARSE else 1.0
    found = [read(model.network, room.caches.rows, text, model.dtype, model.device, keep) for text in texts]
    return Reading(*(torch.stack(part) for part in zip(*found, strict=True)))


def _sorted(batch: RunningBatch, tickets: Sequence[Ticket]) -> list[dict[str, Any]]:
    """Labels of the tickets by the triage job, as it is served."""
    labels: dict[str, dict[str, Any]] = {}
    coming = [Work(ticket=ticket, job=SHIPPED_JOBS["triage"]) for ticket in reversed(tickets)]
    while coming or batch.running:
        while coming and batch.running < SLOTS:
            batch.add(coming.pop())
        for each in batch.step():
            if not isinstance(each, Completed) or each.answer.data is None:
                raise BenchFailed(f"a ticket was not sorted: {each}")
            labels[each.ticket_id] = each.answer.data
    return [labels[ticket.id] for ticket in tickets]


def _costs(model: Model, size: Size, note: Callable[[str], None]) -> dict[KVCache, float]:
    """Share of tokens a second lost against ``full``; the schemes take turns, and the quickest turn of each counts.

    On a CPU by the time of the thread: what else runs here is no scheme's cost.
    """
    clock = time.thread_time if model.device.type == "cpu" else time.perf_counter
    load = long_load(size.answered)
    batches = {scheme: running_batch(model._replace(stop_ids=frozenset()), 8, scheme) for scheme in KVCache}
    quickest = dict.fromkeys(KVCache, float("inf"))
    for number in range(size.rounds):
        for scheme, batch in batches.items():
            note(f"round {number + 1}: answering with kv_cache {scheme.value}")
            began_s, coming = clock(), list(load)
            while coming or batch.running:
                while coming and batch.running < SLOTS:
                    batch.add(coming.pop())
                batch.step()
            quickest[scheme] = min(quickest[scheme], clock() - began_s)
    if not size.rounds:
        return {}
    return {scheme: round(1 - quickest[KVCache.FULL] / quickest[scheme], 4) for scheme in KVCache}


def _row(
    model: Model,
    scheme: KVCache,
    readings: dict[KVCache, Reading],
    long: Labels,
    usual: Labels,
    cost: float | None,
) -> Row:
    sparse = scheme is KVCache.SPARSE
    room = room_for(scheme, model.network.shape, BUDGET_BYTES, LENGTH, STEP_TOKENS, model.dtype, model.device)
    held_bytes = room.caches.rows.bytes_for(kept(LENGTH, KEEP, SINKS + RECENT) if sparse else LENGTH)
    shape = model.network.shape
    fp16_bytes = shape.layers * 2 * shape.kv_heads * shape.head_size * 2 * LENGTH
    judged = slice((readings[scheme].costs.shape[1] + 1) * 2 // 3 if sparse else 0, None)
    mine, full = (
        Reading(each.costs[:, judged], each.picks[:, judged]) for each in (readings[scheme], readings[KVCache.FULL])
    )
    return {
        "kv_cache": scheme.value,
        "bytes_per_token": round(held_bytes / LENGTH),
        "saved_vs_fp16": round(1 - held_bytes / fp16_bytes, 4),
        "perplexity_increase": round(perplexity_increase(mine, full), 5),
        "token_agreement": round(float((mine.picks == full.picks).float().mean()), 4),
        "triage_agreement": _agreement(scheme, long),
        "triage_agreement_usual": _agreement(scheme, usual),
        "cost": "" if cost is None else cost,
    }


def _agreement(scheme: KVCache, labels: Labels) -> float:
    pairs = zip(labels[scheme], labels[KVCache.FULL], strict=True)
    same = [label == theirs[name] for one, theirs in pairs for name, label in one.items()]
    return round(sum(same) / len(same), 4)
