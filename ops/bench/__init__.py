"""Benchmarks: each measures one thing against the usual way of doing it, in the same run, and fails when it loses any.

A benchmark is a function that is given brokers and returns a Report; ``ticketmill bench NAME`` prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ops.bench.report import Report

NAMES = ("enqueue", "drain")


def run_bench(name: str, *, quick: bool, redis_url: str, rabbitmq_url: str, note: Callable[[str], None]) -> Report:
    """Runs one of ``NAMES`` on private brokers, or on those given.

    Args:
        quick: under a minute, for a look; the full run is what counts.
        note: told what is being measured now.

    Raises:
        BenchFailed: a run lost something.
        Refused: a broker that was given is in use.
    """
    from ops.bench.drain import bench_drain
    from ops.bench.enqueue import bench_enqueue
    from ops.bench.private import brokers

    bench = {"enqueue": bench_enqueue, "drain": bench_drain}[name]
    with brokers(redis_url, rabbitmq_url) as running:
        return bench(running, quick=quick, note=note)
