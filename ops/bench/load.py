"""What every run of a benchmark carries: the same made-up ticket, many times, on queues of the benchmark's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

QUEUE = "bench"
"""Queue of the stock workers; ours has its own."""

NOOP = "bench.noop"
"""Name of the stock workers' task."""

BODY = (
    "I ordered two shelves on the third and only one has come. The tracking page says both were handed over. "
    "Could you look into it, please? I need them before the weekend."
)


def tickets(count: int, run: str) -> Iterator[dict[str, Any]]:
    """Tickets of one run; no two of them are the same ticket, not even those of different runs."""
    for number in range(count):
        yield {"body": BODY, "subject": "One shelf missing", "source": "bench", "external_id": f"{run}-{number}"}
