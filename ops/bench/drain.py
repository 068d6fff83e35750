"""How many tickets a second a worker settles: ours, with ledger and events, against stock Celery workers.

Every worker finds its queue full when it starts. Its start is left out: the time runs from the first ticket received
to the last one succeeded, as the worker's own events tell it (the flushing worker sends none, and tells it itself).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from ops.bench.bulk import bench_settings, in_ledger, producing, put_in, require
from ops.bench.flush import DONE
from ops.bench.listener import Heard, listener
from ops.bench.load import QUEUE, tickets
from ops.bench.private import Brokers
from ops.bench.report import BenchFailed, Report, Row, machine, measured, median_ratio
from ops.bench.stock import apply_async_each
from ops.broker_facts import depth
from ops.component import Component
from schemas.queues import PRIORITY_QUEUES
from schemas.settings import ENV_PREFIX, Settings
from schemas.ticket import Priority

NORMAL = PRIORITY_QUEUES[Priority.NORMAL]
WITHIN_S = 300.0
"""A run that is not done by then never will be."""

STOP_S = 30.0
CELERY = [sys.executable, "-m", "celery", "--quiet", "-A"]
STOCK = [*CELERY, "ops.bench.stock", "worker", "-E", "-P", "threads", "--loglevel", "WARNING"]
FLUSH = [*CELERY, "ops.bench.flush", "worker", "-P", "threads", "--loglevel", "WARNING"]
OURS = [*CELERY, "workers.app", "worker", "-E", "--loglevel", "WARNING"]
FEW, MANY, MEASURED = 1_000, 1_000_000, 20_000
"""For the cost of a ticket among few and among many: how many are queued, and how many of the many are timed."""

Way = Callable[[str, int, str], float]
"""Takes a broker's URL, how many tickets, and the run's name; returns the seconds it took to settle them."""


def bench_drain(brokers: Brokers, *, quick: bool, note: Callable[[str], None]) -> Report:
    """Every worker in turn, round after round.

    Raises:
        BenchFailed: a ticket, its event or its row in the ledger was lost.
    """
    messages, rounds = (2_000, 1) if quick else (10_000, 5)
    rows: list[Row] = []
    for broker, url in brokers.urls.items():
        for number in range(1, rounds + 1):
            for way, settle in WAYS[broker].items():
                note(f"{broker}: {way}, round {number} of {rounds}")
                seconds = settle(url, messages, f"{broker}-{way}-{number}")
                rows.append(measured(broker, way, number, messages, seconds))
    if "redis" in brokers.urls and not quick:
        rows += _few_and_many(brokers.urls["redis"], note)
    return Report(bench="drain", machine=machine(), figures=_figures(rows), rows=rows, left_out=list(brokers.left_out))


def _ours(slots: int) -> Way:
    def settle(url: str, messages: int, run: str) -> float:
        with TemporaryDirectory(prefix="ticketmill-bench-") as folder:
            settings = bench_settings(Path(folder), url, slots)
            with producing(settings) as producer:
                put_in(producer, tickets(messages, run))
            heard = _heard(url, OURS, _our_environment(settings), messages)
            expected = {"task-received": messages, "task-started": messages, "task-succeeded": messages}
            require("tickets in events", heard.kinds, expected)
            require("tickets in the ledger", in_ledger(settings), {"answered": messages, "answers": messages})
        return heard.seconds

    return settle


def _stock(url: str, messages: int, run: str) -> float:
    apply_async_each(url, tickets(messages, run))
    heard = _heard(url, STOCK, {**os.environ, "BENCH_BROKER_URL": url}, messages)
    require("tasks in events", heard.succeeded, messages)
    require("messages left", depth(url, QUEUE), 0)
    return heard.seconds


def _flush32(url: str, messages: int, run: str) -> float:
    apply_async_each(url, tickets(messages, run))
    told: list[float] = []

    def read(line: str) -> None:
        if line.startswith(DONE):
            told.append(float(line.removeprefix(DONE)))

    environment = {**os.environ, "BENCH_BROKER_URL": url, "BENCH_MESSAGES": str(messages)}
    _run(FLUSH, environment, lambda: bool(told), read)
    require("messages left", depth(url, QUEUE), 0)
    return told[0]


WAYS: dict[str, dict[str, Way]] = {
    "redis": {"ours_32": _ours(32), "stock": _stock, "ours_128": _ours(128), "flush_32": _flush32},
    "rabbitmq": {"ours_32": _ours(32), "stock": _stock},
}


def _few_and_many(url: str, note: Callable[[str], None]) -> list[Row]:
    few = _ours(32)
    rows: list[Row] = []
    for number in range(1, 6):
        note(f"redis: {FEW:,} queued, round {number} of 5")
        rows.append(measured("redis", "ours_of_few", number, FEW, few(url, FEW, f"few-{number}")))
    note(f"redis: {MANY:,} queued (this takes some minutes)")
    with TemporaryDirectory(prefix="ticketmill-bench-") as folder:
        settings = bench_settings(Path(folder), url)
        with producing(settings) as producer:
            put_in(producer, tickets(MANY, "many"))
        heard = _heard(url, OURS, _our_environment(settings), MEASURED)
        require("tickets in the ledger", sum(_without_answers(in_ledger(settings)).values()), MANY)
        depth(url, NORMAL, empty=True)
    rows.append(measured("redis", "ours_of_many", 1, heard.succeeded, heard.seconds))
    return rows


def _without_answers(found: dict[str, int]) -> dict[str, int]:
    return {state: count for state, count in found.items() if state != "answers"}


def _heard(url: str, command: list[str], environment: dict[str, str], messages: int) -> Heard:
    hears = listener(url)
    _run(command, environment, lambda: hears.succeeded_so_far() >= messages, lambda _: None)
    return hears.close()


def _run(
    command: list[str], environment: dict[str, str], done: Callable[[], bool], read: Callable[[str], None]
) -> None:
    lines: list[str] = []

    def log(_: str, line: str) -> None:
        lines.append(line)
        read(line)

    worker = Component("worker", command, environment, log)
    try:
        deadline = time.monotonic() + WITHIN_S
        while not done():
            if worker.exit_code is not None or time.monotonic() > deadline:
                raise BenchFailed(f"`{' '.join(command[2:])}` did not finish: {' / '.join(lines[-3:])}")
            time.sleep(0.05)
    finally:
        worker.tell_to_stop(STOP_S)
        worker.wait()


def _our_environment(settings: Settings) -> dict[str, str]:
    """Ours without the user's settings, and with those of the run."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    batch = settings.worker.batch
    return clean | {
        "TICKETMILL_CONFIG": os.devnull,
        "TICKETMILL_HOME": settings.home,
        "TICKETMILL_BROKER_URL": settings.broker.url,
        "TICKETMILL_WORKER_ENGINE": settings.worker.engine,
        "TICKETMILL_WORKER_BATCH_POLICY": batch.policy,
        "TICKETMILL_WORKER_BATCH_START": str(batch.start),
        "TICKETMILL_WORKER_BATCH_CAP": str(batch.cap),
    }


_RATIOS = {
    "redis_vs_stock": ("redis", "ours_32", "stock"),
    "redis_vs_stock_128": ("redis", "ours_128", "stock"),
    "redis_vs_flush32": ("redis", "ours_32", "flush_32"),
    "rabbitmq_vs_stock": ("rabbitmq", "ours_32", "stock"),
}


def _figures(rows: list[Row]) -> dict[str, float]:
    rates: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        rates.setdefault((str(row["broker"]), str(row["way"])), []).append(float(row["per_s"]))
    figures = {f"{broker}_{way}_per_s": round(median(each), 1) for (broker, way), each in rates.items()}
    for name, (broker, one, other) in _RATIOS.items():
        if (broker, one) in rates:
            figures[name] = median_ratio(rates[broker, one], rates[broker, other])
    if ("redis", "ours_of_many") in rates:
        few, many = median(rates["redis", "ours_of_few"]), median(rates["redis", "ours_of_many"])
        figures["cost_1m_vs_1k"] = round(few / many, 3)
    return figures
