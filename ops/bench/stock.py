"""The other side of the comparison: a plain Celery worker whose task does nothing.

Run as ``celery -A ops.bench.stock worker`` with ``BENCH_BROKER_URL`` in its environment.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from ops.bench.load import NOOP, QUEUE

app = Celery("stock", broker=os.environ.get("BENCH_BROKER_URL", "memory://"))
app.conf.update(
    task_default_queue=QUEUE,
    task_ignore_result=True,
    worker_send_task_events=True,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


def noop(**_ticket: Any) -> None:
    """Does nothing with a ticket."""


app.task(name=NOOP, shared=False)(noop)
