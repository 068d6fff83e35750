"""Flower, set up to tell the truth about tickets: what was before it started comes from the ledger, the rest as events.

Flower chooses how to read queue lengths by the scheme of the broker's URL, so it gets the plain one. It is read-only:
workers are told what to do in other ways, and whoever may look may not always touch.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from sqlalchemy.engine import Engine

from ops.flower.past import past_events
from ops.sockets import require_free_port
from schemas.errors import SettingRefused
from schemas.queues import INLET, QUEUES
from schemas.settings import Settings

MOST_TASKS = 100_000
"""Tickets that Flower keeps in memory, the latest; the ledger has them all."""

MOST_PAST = 10_000
"""Tickets that are read from the ledger at start: a second or two."""


def serve_flower(settings: Settings, ledger: Engine, ready: Callable[[str], None]) -> None:
    """Runs Flower until it is told to stop; calls ``ready`` with its address once it listens.

    Raises:
        SettingRefused: it shall listen beyond this machine without a password.
        Unavailable: the port is taken.
    """
    host, port = settings.flower.host, settings.flower.port
    if not is_loopback(host) and not settings.flower.basic_auth:
        raise SettingRefused("flower.basic_auth", "is needed where Flower listens beyond this machine: user:password")
    if settings.flower.basic_auth and ":" not in settings.flower.basic_auth:
        raise SettingRefused("flower.basic_auth", "must be user:password")
    require_free_port(host, port, "flower.port")
    server = _flower(settings)
    for event in past_events(ledger, MOST_PAST):
        server.events.state.event(event)
    server.start_http_server()
    ready(f"http://{host}:{port}")
    server.start()


def _flower(settings: Settings) -> Any:
    # Typed as Any: neither Celery nor Flower has types.
    from celery import Celery
    from flower.app import Flower
    from flower.options import default_options as options
    from flower.urls import settings as web
    from kombu.entity import Queue

    options.address = settings.flower.host
    options.port = settings.flower.port
    options.basic_auth = [settings.flower.basic_auth] if settings.flower.basic_auth else []
    options.read_only = True
    options.max_tasks = MOST_TASKS
    options.broker_api = settings.flower.broker_api or None
    app = Celery("ticketmill", broker=settings.broker.url, backend=settings.broker.result_backend or None)
    app.conf.task_queues = [Queue(name) for name in (*QUEUES, INLET)]
    return Flower(capp=app, options=options, **web)


def is_loopback(host: str) -> bool:
    """Nobody but this machine reaches a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
