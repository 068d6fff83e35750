"""What a benchmark says: figures and rows, on a screen or as one JSON object."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from statistics import median

import msgspec

from schemas.errors import TicketmillError

Row = dict[str, str | int | float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark's result.

    Attributes:
        machine: what it ran on: a rate means nothing without it, a ratio a little less.
        figures: flat names to numbers; ratios are medians over alternating runs, rates are medians a second.
        rows: one a measured run, in the order they ran.
        left_out: what could not be measured here, and why.
    """

    bench: str
    machine: dict[str, str | int | float]
    figures: dict[str, float]
    rows: list[Row]
    left_out: list[str] = []


class BenchFailed(TicketmillError):
    """A run lost something, or never ended: its numbers would be worth nothing."""


def machine() -> dict[str, str | int | float]:
    """The machine and the versions that matter."""
    facts: dict[str, str | int | float] = {
        "cpus": os.cpu_count() or 1,
        "cpu": _cpu_name(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    for package in ("celery", "kombu", "redis", "amqp", "sqlalchemy", "torch", "transformers"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    return facts


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the pairs' ratios: each pair ran one after the other, so that the machine's moods cancel out."""
    return round(median(one / other for one, other in zip(ours, theirs, strict=True)), 3)


def measured(broker: str, way: str, number: int, messages: int, seconds: float) -> Row:
    """One run as a row."""
    return {
        "broker": broker,
        "way": way,
        "round": number,
        "messages": messages,
        "seconds": round(seconds, 4),
        "per_s": round(messages / seconds, 1),
    }


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
