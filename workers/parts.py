"""What a drain is made of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from schemas.circuit_breaker import GpuBreakerSettings
from schemas.job import Job
from workers.ending import Ending
from workers.policy.reclaim import Limits
from workers.ports import Clock, Engine, Ledger, Monitor, Orders, Results
from workers.sizing import Sizing
from workers.taking import Taking
from workers.upstreams import Upstreams


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        results: None if nobody asks Celery's result backend for answers.
        worker: our name in the ledger, unlike that of any process before us.
        job: finds a job by its name.
        most_starts: times that a ticket may be lost with its worker.
        ending: what becomes of tickets.
        new_batch: makes ids of batches.
        orders: what holds now.
        reclaim: when memory is reclaimed.
        device: name of its device's breaker.
        gpu: when that opens.
        restart: has this process make way for a new one like it, once what it holds is given back.
        revoked: whether a ticket was withdrawn by remote control.
    """

    ledger: Ledger
    open_engine: Callable[[bool], Engine]
    results: Results | None
    monitor: Monitor
    clock: Clock
    worker: str
    job: Callable[[str], Job | None]
    most_starts: int
    sizing: Sizing
    new_batch: Callable[[datetime], str]
    ending: Ending
    upstreams: Upstreams
    taking: Taking
    orders: Callable[[], Orders]
    reclaim: Limits
    device: str
    gpu: GpuBreakerSettings
    restart: Callable[[], object]
    revoked: Callable[[str], bool]
