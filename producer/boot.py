"""The only wiring of this room: from settings to parts that work together."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from sqlalchemy.engine import Engine
from starlette.applications import Starlette
from starlette.routing import Route

from producer.adapters.backlog import read_backlog
from producer.adapters.books import SqlBooks
from producer.adapters.brokers import is_redis, open_broker
from producer.adapters.celery_results import CeleryResults
from producer.adapters.clock import monotonic_s, pause, utc_now
from producer.adapters.door_breaker import DoorBreaker
from producer.adapters.gate_model import load_model
from producer.adapters.gate_versions import GateVersions, Renewal
from producer.adapters.key_ring import SqlKeyRing
from producer.adapters.ledger import SqlLedger, new_ids, open_migrated
from producer.adapters.outbox import SqlOutbox
from producer.adapters.processor import Processor
from producer.adapters.rabbitmq_inlet import RabbitInlet
from producer.adapters.redis_inlet import RedisInlet
from producer.adapters.review_lists import SqlReviewLists
from producer.adapters.reviews import SqlReviews
from producer.adapters.shared_rates import SharedRates
from producer.adapters.verdicts import SqlTally
from producer.admission import Admission, OpenGate
from producer.duties import Duty, ReconcilerTurns, RelayTurns
from producer.inlet import InletTurns
from producer.intake import Intake
from producer.load import Load
from producer.policy.copies import CopyLimits
from producer.policy.gate import TextGate
from producer.policy.running import RunningLimits
from producer.policy.senders import SenderLimits, Senders
from producer.policy.shares import Shares, window_of
from producer.policy.shedding import Busy
from producer.policy.text.content import ContentModel
from producer.policy.text.shape import ShapeLimits
from producer.policy.trust import Trusted
from producer.relay import Reconciler, Relay, Tray
from producer.routine import Routine
from producer.sender import Sender
from producer.web.app import make_app
from producer.web.reviewing import review_routes
from schemas.errors import LedgerUnavailable
from schemas.settings import Settings
from schemas.ticket import Priority

SILENT_LEASES = 2
"""Leases that a worker may miss before its tickets are queued again."""

DUTY_LASTS = timedelta(seconds=5)
"""How long the duties of a process that died wait for another."""

TRAY_CHUNKS = 40
"""Chunks that the doors may be ahead of the relay; what is beyond that is left to its sweep."""

LIMITED_S = 0.1
"""Between two sweeps where somebody may only run so many tickets: what ends makes room for the next."""

COUNTED_EVERY_S = 1.0
"""Between two writings of the number of verdicts: what a killed process has not counted is at most this old."""

ROUTINE_GRACE_S = 10.0
"""How long each routine may take to end."""


@dataclass(frozen=True)
class Producer:
    """The parts of this room that every door needs, over one ledger."""

    settings: Settings
    engine: Engine
    ledger: SqlLedger
    keys: SqlKeyRing
    gate: Admission | OpenGate
    intake: Intake

    def relay(self, load: Load | None = None) -> Relay:
        """A relay with a connection to the broker of its own: one thread's.

        Args:
            load: how much there is to do just now; without it the backfill has its whole window, and every tenant all.
        """
        fairness = self.settings.fairness
        fair = load is not None and fairness.window > 0
        settings = self.settings
        broker = open_broker(settings.broker.url)
        return Relay(
            SqlOutbox(self.engine),
            broker,
            chunk=settings.relay.chunk,
            window=lambda: int(settings.backfill.window * (load.backfill_share() if load else 1.0)),
            judge=self.gate.judge_held,
            limits=RunningLimits(settings.limits.tenants, settings.limits.jobs),
            shares=Shares(fairness.weights) if fair else None,
            share=lambda: window_of(load.per_s if load else None, fairness.window),
        )

    def reconciler(self) -> Reconciler:
        """A reconciler with a connection of its own."""
        settings = self.settings
        return Reconciler(
            SqlBooks(self.engine),
            open_broker(settings.broker.url),
            chunk=settings.relay.chunk,
            silent_after=SILENT_LEASES * timedelta(seconds=settings.worker.lease),
            lost_after=timedelta(seconds=settings.relay.lost_after),
            hold=timedelta(seconds=settings.relay.hold),
        )

    def sender(self) -> Sender:
        """A way in for a command: what it takes in is published by itself, as far as the broker is there."""
        return Sender(self.intake, self.relay(), utc_now)

    def review_lists(self) -> SqlReviewLists:
        """What reviewers see."""
        return SqlReviewLists(self.engine, sla=timedelta(seconds=self.settings.review.sla))

    def count_verdicts(self) -> float:
        """Writes down how many verdicts there were since the last time; returns when to do so again, in seconds."""
        if isinstance(self.gate, Admission):
            self.gate.flush(SqlTally(self.engine), utc_now())
        return COUNTED_EVERY_S

    def close(self) -> None:
        """Lets go of the ledger."""
        with suppress(LedgerUnavailable):
            self.count_verdicts()
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
    gate = open_gate(settings)
    return Producer(
        settings=settings,
        engine=engine,
        ledger=ledger,
        keys=SqlKeyRing(engine),
        gate=gate,
        intake=Intake(ledger, gate, settings.all_jobs(), new_ids),
    )


def open_gate(settings: Settings) -> Admission | OpenGate:
    """The gate that the settings ask for: one for the whole process, so that its doors share what it remembers.

    Raises:
        SettingRefused: its model cannot be loaded, or it trusts what is no network and no name.
    """
    asked = settings.anti_spam
    if not asked.enabled:
        return OpenGate()
    pattern, copies, behavior = asked.text_pattern, asked.copies, asked.behavior
    text = TextGate(
        _model(settings),
        ShapeLimits(max_repeat_char=pattern.max_repeat_char, min_entropy=pattern.min_entropy),
        CopyLimits(window_s=copies.window, senders=ceil(copies.senders * behavior.expected)),
    )
    limits = SenderLimits(
        per_window=max(1.0, behavior.max_qps * behavior.burst_window * behavior.expected),
        window_s=behavior.burst_window,
        block_s=behavior.block_for,
    )
    url = settings.broker.url
    rates = SharedRates(url, monotonic_s) if is_redis(url) else None
    return Admission(text, Senders(limits), Senders(limits), rates, Trusted(behavior.trusted), asked.sample)


def _model(settings: Settings) -> ContentModel:
    if settings.anti_spam.model:
        return load_model(settings.anti_spam.model)
    versions = GateVersions(settings.home)
    return versions.load(versions.current())


def open_load(producer: Producer) -> Load:
    """What the door measures of its machine and of the queues."""
    settings = producer.settings
    cpu, shedding = settings.circuit_breaker.cpu, settings.shedding
    longest_s = {Priority.LOW: shedding.low, Priority.NORMAL: shedding.normal, Priority.HIGH: shedding.high}
    return Load(
        longest_s,
        Busy(cpu.threshold / 100, cpu.duration),
        Processor().share if cpu.threshold < 100 else lambda: 0.0,
        lambda: read_backlog(producer.engine),
        DoorBreaker(producer.engine, f"cpu:{socket.gethostname()}", timedelta(seconds=cpu.duration)),
        monotonic_s,
        utc_now,
    )


def open_floor(producer: Producer) -> Floor:
    """The serving process's parts, not started yet."""
    settings = producer.settings
    books = SqlBooks(producer.engine)
    holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    tray = Tray(TRAY_CHUNKS * settings.relay.chunk)
    load = open_load(producer)
    relaying = RelayTurns(
        tray,
        producer.relay(load),
        Duty(books, "relay", holder, DUTY_LASTS),
        utc_now,
        timedelta(seconds=min(settings.relay.interval, LIMITED_S) if settings.limits.any else settings.relay.interval),
        settings.relay.chunk,
    )
    reconciling = ReconcilerTurns(
        producer.reconciler(),
        Duty(books, "reconciler", holder, DUTY_LASTS + timedelta(seconds=settings.relay.reconcile_interval)),
        utc_now,
        timedelta(seconds=settings.relay.reconcile_interval),
    )
    relay = Routine("relay", relaying.turn, relaying.last)
    routines = [
        relay,
        Routine("reconciler", reconciling.turn, reconciling.last),
        Routine("verdicts", producer.count_verdicts, lambda: None),
        Routine("load", load.turn, lambda: None),
    ]
    if isinstance(producer.gate, Admission) and not settings.anti_spam.model:
        renewal = Renewal(GateVersions(settings.home), producer.gate.renew)
        routines.append(Routine("gate", renewal.turn, lambda: None))
    if settings.inlet.enabled:
        inlet = _inlet_turns(producer, tray, Duty(books, "inlet", holder, DUTY_LASTS))
        routines.append(Routine("inlet", inlet.turn, inlet.last))
    app = make_app(
        settings.http,
        producer.intake,
        producer.gate,
        producer.ledger,
        producer.keys,
        tray,
        load,
        lambda: relay.trouble,
        _review_routes(producer),
    )
    return Floor(app=app, tray=tray, routines=routines)


def _review_routes(producer: Producer) -> list[Route]:
    asked = producer.settings.review
    return review_routes(
        producer.keys,
        producer.keys,
        SqlReviews(
            producer.engine,
            claim_for=timedelta(seconds=asked.claim),
            undo_for=timedelta(seconds=asked.undo),
            second_opinions=asked.second_opinion,
        ),
        producer.review_lists(),
        timedelta(seconds=asked.session),
        utc_now,
    )


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
