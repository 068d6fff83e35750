"""How many tickets a second can be put on a queue: our bulk path, ledger row included, against ``apply_async``.

Ours counts a ticket when it is durable in the ledger and its message confirmed by the broker. ``apply_async`` has no
ledger, and on RabbitMQ no confirmation unless asked for; both ways of it are measured there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from ops.bench.bulk import bench_settings, in_ledger, producing, put_in, require
from ops.bench.load import QUEUE, tickets
from ops.bench.private import Brokers
from ops.bench.report import Report, Row, machine, measured, median_ratio
from ops.bench.stock import apply_async_each
from ops.broker_facts import depth
from schemas.queues import PRIORITY_QUEUES
from schemas.ticket import Priority

OURS = PRIORITY_QUEUES[Priority.NORMAL]
ARRIVED_WITHIN_S = 30.0


def bench_enqueue(brokers: Brokers, *, quick: bool, note: Callable[[str], None]) -> Report:
    """Every way in turn, round after round.

    Args:
        note: told what is being measured.

    Raises:
        BenchFailed: a ticket was lost on the way.
    """
    messages, rounds = (2_000, 3) if quick else (20_000, 5)
    rows: list[Row] = []
    for broker, url in brokers.urls.items():
        ways = _ways(broker, url)
        for each in range(rounds):
            for way, put in ways.items():
                note(f"{broker}: {way}, round {each + 1} of {rounds}")
                seconds = put(messages, f"{broker}-{way}-{each}")
                rows.append(measured(broker, way, each + 1, messages, seconds))
    return Report(
        bench="enqueue", machine=machine(), figures=_figures(rows), rows=rows, left_out=list(brokers.left_out)
    )


def _ways(broker: str, url: str) -> dict[str, Callable[[int, str], float]]:
    def ours(messages: int, run: str) -> float:
        return _ours(url, messages, run)

    def stock(messages: int, run: str) -> float:
        return _stock(url, messages, run, confirmed=False)

    def confirmed(messages: int, run: str) -> float:
        return _stock(url, messages, run, confirmed=True)

    ways = {"bulk": ours, "apply_async": stock}
    return ways | {"apply_async_confirmed": confirmed} if broker == "rabbitmq" else ways


def _ours(url: str, messages: int, run: str) -> float:
    with TemporaryDirectory(prefix="ticketmill-bench-") as folder:
        settings = bench_settings(Path(folder), url)
        rows = list(tickets(messages, run))
        with producing(settings) as producer:
            began = time.perf_counter()
            put_in(producer, rows)
            seconds = time.perf_counter() - began
        require("tickets queued in the ledger", in_ledger(settings), {"queued": messages, "answers": 0})
        require("messages on the broker", depth(url, OURS, empty=True), messages)
    return seconds


def _stock(url: str, messages: int, run: str, *, confirmed: bool) -> float:
    rows = list(tickets(messages, run))
    began = time.perf_counter()
    apply_async_each(url, rows, confirmed=confirmed)
    seconds = time.perf_counter() - began
    if not confirmed:
        _wait_for(url, messages)
    require("messages on the broker", depth(url, QUEUE, empty=True), messages)
    return seconds


def _wait_for(url: str, messages: int) -> None:
    """Unconfirmed messages are still on their way to the broker when their sender has hung up."""
    deadline = time.monotonic() + ARRIVED_WITHIN_S
    while depth(url, QUEUE) < messages and time.monotonic() < deadline:
        time.sleep(0.05)


def _figures(rows: list[Row]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for broker in dict.fromkeys(row["broker"] for row in rows):
        rates = {
            way: [float(row["per_s"]) for row in rows if row["broker"] == broker and row["way"] == way]
            for way in dict.fromkeys(row["way"] for row in rows if row["broker"] == broker)
        }
        figures |= {f"{broker}_{way}_per_s": round(median(each), 1) for way, each in rates.items()}
        figures[f"{broker}_vs_apply_async"] = median_ratio(rates["bulk"], rates["apply_async"])
        if "apply_async_confirmed" in rates:
            confirmed = median_ratio(rates["bulk"], rates["apply_async_confirmed"])
            figures[f"{broker}_confirmed_vs_apply_async_confirmed"] = confirmed
    return figures
