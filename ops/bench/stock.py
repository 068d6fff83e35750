"""The other side of the comparison: a plain Celery program whose task does nothing.

Its worker runs as ``celery -A ops.bench.stock worker`` with ``BENCH_BROKER_URL`` in its environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from celery import Celery

from ops.bench.load import NOOP, QUEUE


def noop(**_ticket: Any) -> None:
    """Does nothing with a ticket."""


def stock_app(url: str, *, confirmed: bool = False) -> Celery:
    """A Celery app as most people set it up. ``confirmed``: on RabbitMQ, each message is confirmed before the next."""
    stock = Celery("stock", broker=url, set_as_current=False)
    stock.conf.update(
        task_default_queue=QUEUE,
        task_ignore_result=True,
        worker_send_task_events=True,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"confirm_publish": True} if confirmed else {},
    )
    stock.task(name=NOOP, shared=False)(noop)
    return stock


def apply_async_each(url: str, tickets: Iterable[dict[str, Any]], *, confirmed: bool = False) -> None:
    """What a program does that puts many tickets on a queue with Celery: one ``apply_async`` a ticket."""
    stock = stock_app(url, confirmed=confirmed)
    task: Any = stock.tasks[NOOP]
    try:
        for ticket in tickets:
            task.apply_async(kwargs=ticket)
    finally:
        stock.close()


app = stock_app(os.environ.get("BENCH_BROKER_URL", "memory://"))
