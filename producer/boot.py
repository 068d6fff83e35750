"""The only wiring of this room: from settings to parts that work together."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.engine import Engine
from starlette.applications import Starlette

from producer.adapters.books import SqlBooks
from producer.adapters.brokers import is_redis, open_broker
from producer.adapters.celery_results import CeleryResults
from producer.adapters.clock import pause, utc_now
from producer.adapters.key_ring import SqlKeyRing
from producer.adapters.ledger import SqlLedger, new_ids, open_migrated
from producer.adapters.outbox import SqlOutbox
from producer.adapters.rabbitmq_inlet import RabbitInlet
from producer.adapters.redis_inlet import RedisInlet
from producer.duties import Duty, ReconcilerTurns, RelayTurns
from producer.inlet import InletTurns
from producer.intake import Intake
from producer.policy.gate import OpenGate
from producer.relay import Reconciler, Relay, Tray
from producer.routine import Routine
from producer.sender import Sender
from producer.web.app import make_app
from schemas.settings import Settings

SILENT_LEASES = 2
"""Leases that a worker may miss before its tickets are queued again."""

DUTY_LASTS = timedelta(seconds=5)
"""How long the duties of a process that died wait for another."""

TRAY_CHUNKS = 40
"""Chunks that the doors may be ahead of the relay; what is beyond that is left to its sweep."""

ROUTINE_GRACE_S = 10.0
"""How long each routine may take to end."""


@dataclass(frozen=True)
class Producer:
    """The parts of this room that every door needs, over one ledger."""

    settings: Settings
    engine: Engine
    ledger: SqlLedger
    keys: SqlKeyRing
    intake: Intake

    def relay(self) -> Relay:
        """A relay with a connection to the broker of its own: one thread's."""
        settings = self.settings
        broker = open_broker(settings.broker.url)
        return Relay(SqlOutbox(self.engine), broker, chunk=settings.relay.chunk, window=settings.backfill.window)

    def reconciler(self) -> Reconciler:
        """A reconciler with a connection of its own."""
        settings = self.settings
        return Reconciler(
            SqlBooks(self.engine),
            open_broker(settings.broker.url),
            chunk=settings.relay.chunk,
            silent_after=SILENT_LEASES * timedelta(seconds=settings.worker.lease),
            lost_after=timedelta(seconds=settings.relay.lost_after),
        )

    def sender(self) -> Sender:
        """A way in for a command: what it takes in is published by itself, as far as the broker is there."""
        return Sender(self.intake, self.relay(), utc_now)

    def close(self) -> None:
        """Lets go of the ledger."""
        self.engine.dispose()


@dataclass(frozen=True)
class Floor:
    """What the serving process runs: an application, and routines beside it."""

    app: Starlette
    tray: Tray
    routines: Sequence[Routine]

    def start(self) -> None:
        """Begins the routines."""
        for routine in self.routines:
            routine.start()

    def stop(self) -> None:
        """Ends them, once the application has taken in its last ticket."""
        for routine in self.routines:
            routine.stop()
        self.tray.close()
        for routine in self.routines:
            routine.join(ROUTINE_GRACE_S)


def open_producer(settings: Settings) -> Producer:
    """Everything, over the ledger that the settings name.

    Raises:
        SettingRefused: a URL that cannot be used.
        LedgerUnavailable, LedgerNotMigrated: there is no ledger to work with.
    """
    engine = open_migrated(settings.ledger.url)
    ledger = SqlLedger(engine)
    return Producer(
        settings=settings,
        engine=engine,
        ledger=ledger,
        keys=SqlKeyRing(engine),
        intake=Intake(ledger, OpenGate(), settings.all_jobs(), new_ids),
    )


def open_floor(producer: Producer) -> Floor:
    """The serving process's parts, not started yet."""
    settings = producer.settings
    books = SqlBooks(producer.engine)
    holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    tray = Tray(TRAY_CHUNKS * settings.relay.chunk)
    relaying = RelayTurns(
        tray,
        producer.relay(),
        Duty(books, "relay", holder, DUTY_LASTS),
        utc_now,
        timedelta(seconds=settings.relay.interval),
        settings.relay.chunk,
    )
    reconciling = ReconcilerTurns(
        producer.reconciler(),
        Duty(books, "reconciler", holder, DUTY_LASTS + timedelta(seconds=settings.relay.reconcile_interval)),
        utc_now,
        timedelta(seconds=settings.relay.reconcile_interval),
    )
    relay = Routine("relay", relaying.turn, relaying.last)
    routines = [relay, Routine("reconciler", reconciling.turn, reconciling.last)]
    if settings.inlet.enabled:
        inlet = _inlet_turns(producer, tray, Duty(books, "inlet", holder, DUTY_LASTS))
        routines.append(Routine("inlet", inlet.turn, inlet.last))
    app = make_app(settings.http, producer.intake, producer.ledger, producer.keys, tray, lambda: relay.trouble)
    return Floor(app=app, tray=tray, routines=routines)


def _inlet_turns(producer: Producer, tray: Tray, duty: Duty) -> InletTurns:
    settings = producer.settings
    url = settings.broker.url
    redis = is_redis(url)
    return InletTurns(
        RedisInlet(url, pause) if redis else RabbitInlet(url, settings.relay.chunk),
        producer.intake,
        producer.ledger,
        CeleryResults(settings.broker.result_backend),
        tray,
        tenant=settings.inlet.tenant,
        chunk=settings.relay.chunk,
        clock=utc_now,
        # RabbitMQ shares messages out among those who ask; a Redis list is read by one at a time.
        mine=duty.mine if redis else lambda _: True,
    )
