"""Benchmarks: ``ticketmill bench NAME`` prints the Report of one.

Those that move tickets measure against the usual way of doing it, in the same run, and fail when they lose any.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ops.bench.report import Report

NAMES = ("enqueue", "drain", "gate", "sizing", "engine")


def run_bench(
    name: str,
    *,
    quick: bool,
    redis_url: str,
    rabbitmq_url: str,
    data: Path | None,
    home: Path,
    device: Literal["cpu", "cuda"],
    note: Callable[[str], None],
) -> Report:
    """Runs one of ``NAMES`` on private brokers, or on those given.

    Args:
        data: for ``gate``: a folder to judge the shipped gate on.
        home: for ``sizing`` and ``engine``: where models are kept.
        device: for ``engine``: what computes.
        quick: under a minute, for a look; the full run is what counts.
        note: told what is being measured now.

    Raises:
        BenchFailed: a run lost something.
        Refused: a broker that was given is in use.
    """
    if name == "gate":
        from ops.bench.gate import bench_gate

        return bench_gate(data, quick=quick, note=note)
    if name == "sizing":
        from ops.bench.sizing import bench_sizing

        return bench_sizing(home, quick=quick, note=note)
    if name == "engine":
        from ops.bench.engine import bench_engine

        return bench_engine(home, device, quick=quick, note=note)
    from ops.bench.drain import bench_drain
    from ops.bench.enqueue import bench_enqueue
    from ops.bench.private import brokers

    bench = {"enqueue": bench_enqueue, "drain": bench_drain}[name]
    with brokers(redis_url, rabbitmq_url) as running:
        return bench(running, quick=quick, note=note)
