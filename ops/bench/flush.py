"""A worker that gathers messages and runs them 32 at a time in one call, as common add-ons to Celery do.

The buffer lives in the consumer; a flush is one job of the thread pool; each message is acknowledged on its own once
the pool has taken the flush. No events are sent, so the worker itself says when it saw its first message and when its
last flush was done. Run as ``celery -A ops.bench.flush worker`` with ``BENCH_BROKER_URL`` and ``BENCH_MESSAGES``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from celery import Celery, Task
from celery.worker.request import create_request_cls
from kombu.utils.imports import symbol_by_name

from ops.bench.load import NOOP, QUEUE

FLUSH = 32
FLUSH_AFTER_S = 0.2
DONE = "bench: seconds "

app = Celery("flush", broker=os.environ.get("BENCH_BROKER_URL", "memory://"))
app.conf.update(
    task_default_queue=QUEUE,
    task_ignore_result=True,
    worker_redirect_stdouts=False,
    # Enough on hand for a flush to fill while another runs.
    worker_prefetch_multiplier=FLUSH * 2,
    worker_concurrency=2,
    broker_connection_retry_on_startup=True,
)


class _Meter:
    """From the first message to the end of the last flush."""

    def __init__(self, messages: int) -> None:
        self._left = messages
        self._lock = threading.Lock()
        self._began = 0.0

    def begin(self) -> None:
        self._began = self._began or time.perf_counter()

    def done(self, requests: list[Any]) -> None:
        with self._lock:
            self._left -= len(requests)
            if self._left == 0:
                print(f"{DONE}{time.perf_counter() - self._began}", flush=True)


meter = _Meter(int(os.environ.get("BENCH_MESSAGES", "0")))


class Flushed(Task):
    """A task whose messages are gathered by ``gather``."""

    Strategy = "ops.bench.flush:gather"


def gather(task: Any, app: Any, consumer: Any, **_: object) -> Callable[..., None]:
    """Celery's hook: what becomes of each message of this task."""
    request_class = symbol_by_name(task.Request)
    make = create_request_cls(request_class, task, consumer.pool, consumer.hostname, None, app=app)
    buffer: list[Any] = []

    def flush() -> None:
        requests, buffer[:] = buffer[:], []
        if requests:
            consumer.pool.apply_async(task.run, (requests,), accept_callback=_acknowledger(requests))

    def take(message: Any, _body: object, ack: Any, reject: Any, _callbacks: object, **_more: object) -> None:
        meter.begin()
        buffer.append(
            make(
                message,
                on_ack=ack,
                on_reject=reject,
                app=app,
                hostname=consumer.hostname,
                task=task,
                connection_errors=consumer.connection_errors,
                body=message.body,
                headers=message.headers,
                decoded=False,
                utc=True,
            )
        )
        if len(buffer) >= FLUSH:
            flush()

    consumer.timer.call_repeatedly(FLUSH_AFTER_S, flush)
    return take


def _acknowledger(requests: list[Any]) -> Callable[..., None]:
    def acknowledge(*_: object) -> None:
        for request in requests:
            request.acknowledge()

    return acknowledge


def noop(requests: list[Any]) -> None:
    """Does nothing with many tickets."""
    meter.done(requests)


app.task(name=NOOP, base=Flushed, shared=False)(noop)
