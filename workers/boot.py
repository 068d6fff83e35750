"""The only wiring of this room: from settings to a Celery app whose workers drain."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any

from celery.utils.time import rate
from celery.worker import state
from msgspec.structs import asdict, replace

from schemas.errors import SettingRefused
from schemas.job import Job
from schemas.outcome import Asked
from schemas.queues import INLET, QUEUES
from schemas.settings import Settings
from schemas.ticket import Ticket
from workers.adapters import clock
from workers.adapters.given_before import GivenBefore
from workers.adapters.ledger import batch_id, open_sql_ledger
from workers.adapters.monitor import CeleryMonitor
from workers.adapters.results import CeleryResults
from workers.control import register
from workers.drain import Drain
from workers.ending import Ending
from workers.engine.messages import asked
from workers.parts import Parts
from workers.policy.reclaim import Limits
from workers.ports import Engine, Orders
from workers.sizing import Sizing
from workers.steps import Amqp, DrainStep, EngineStep, Mill, MillEvents, TicketTask, queue_of, restart
from workers.taking import Taking
from workers.upstreams import Upstreams

REDIS_SCHEMES = ("redis", "rediss", "redis+socket", "sentinel")
RABBITMQ_SCHEMES = ("amqp", "amqps", "pyamqp")

REDIS_OPTIONS = {"socket_timeout": 15.0, "socket_connect_timeout": 5.0, "socket_keepalive": True}
"""A broker that vanished without a word is noticed, instead of being waited for without end."""

RABBITMQ_OPTIONS = {"read_timeout": 5.0, "write_timeout": 15.0}
"""The same: what waits for a broker's reply is the thread that keeps the leases."""


def make_app(settings: Settings, open_engine: Callable[[Settings], Engine]) -> Mill:
    """A Celery app for ``celery -A ... worker``. Nothing is opened before a worker starts.

    Args:
        open_engine: loads the engine, on the engine's own thread.
    """
    app = Mill("ticketmill", amqp=Amqp, events=MillEvents, set_as_current=True)
    app.settings = settings
    app.now_s = clock.monotonic_s
    app.conf.update(configuration(settings))
    task: Any = app.register_task(TicketTask())
    task.time_limit = settings.worker.time_limit or None

    def orders() -> Orders:
        return Orders(time_limit_s=task.time_limit or inf, per_s=rate(task.rate_limit))

    def assemble(hostname: str) -> tuple[Drain, CeleryMonitor]:
        results = CeleryResults(app) if settings.broker.result_backend else None
        monitor = CeleryMonitor(app, task, hostname, clock, lambda ticket_id: app.drain.withdraw(ticket_id))
        here = {name: replace(model, device="cpu") for name, model in settings.models.items()}
        on_processor = replace(settings, models=here)
        remote = frozenset(name for name, model in settings.used_models().items() if model.base_url)
        upstreams = Upstreams(remote, settings.circuit_breaker.upstream, settings.retry_share)
        parts = Parts(
            ledger=open_sql_ledger(
                settings.ledger.url,
                results=results is not None,
                breakers=settings.worker.engine != "noop" or bool(remote),
                given=_given_before(settings) if remote else None,
            ),
            open_engine=lambda on_device: open_engine(settings if on_device else on_processor),
            results=results,
            monitor=monitor,
            clock=clock,
            worker=f"{hostname}#{secrets.token_hex(3)}",
            job=settings.job,
            most_starts=settings.worker.most_starts,
            sizing=Sizing(settings.worker.batch, clock.monotonic_s()),
            new_batch=batch_id,
            ending=Ending(settings.retry_matrix(), settings.models, upstreams, _asked(settings), random.random),
            upstreams=upstreams,
            taking=Taking(settings.worker.patience, orders, clock),
            orders=orders,
            reclaim=Limits(**asdict(settings.reclaim)),
            device=f"gpu:{hostname.partition('@')[2]}",
            gpu=settings.circuit_breaker.gpu,
            restart=restart,
            revoked=state.revoked.__contains__,
        )
        return Drain(parts), monitor

    app.assemble = assemble
    register()
    steps: Any = app.steps
    steps["worker"].add(EngineStep)
    steps["consumer"].add(DrainStep)
    return app


def _given_before(settings: Settings) -> GivenBefore | None:
    if not settings.cached_answers:
        return None
    return GivenBefore(timedelta(seconds=settings.cached_answers), settings.nearest_answers)


def _asked(settings: Settings) -> Callable[[Ticket, Job], Asked]:
    if not settings.nearest_answers:
        return asked
    from workers.engine.likeness import Likeness

    likeness = Likeness()
    return lambda ticket, job: asked(ticket, job, likeness.vector)


def configuration(settings: Settings) -> dict[str, Any]:
    """Celery's own settings, as our workers need them.

    Raises:
        SettingRefused: the broker is of no kind that we drain.
    """
    scheme = settings.broker.url.partition("://")[0]
    if scheme not in REDIS_SCHEMES + RABBITMQ_SCHEMES:
        raise SettingRefused("broker.url", "must begin with redis://, rediss://, redis+socket://, amqp:// or amqps://")
    redis = scheme in REDIS_SCHEMES
    return {
        "broker_url": settings.broker.url,
        "broker_transport_options": dict(REDIS_OPTIONS if redis else RABBITMQ_OPTIONS),
        "worker_consumer": "workers.steps:PatientConsumer",
        "broker_heartbeat": max(1, int(settings.worker.lease)),
        "result_backend": settings.broker.result_backend or None,
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "task_default_queue": INLET,
        "task_default_exchange": "ticketmill",
        "task_queues": [queue_of(name) for name in QUEUES],
        "worker_pool": "threads",  # a batch must never stop the consumer's loop, nor a fork meet a device
        "worker_concurrency": settings.worker.batch.start,
        "worker_prefetch_multiplier": 1,
        "worker_send_task_events": True,
        "enable_utc": True,
        "timezone": "UTC",
    }
