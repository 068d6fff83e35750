"""The only wiring of this room: from settings to parts that work together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.engine import Engine

from producer.adapters.books import SqlBooks
from producer.adapters.brokers import open_broker
from producer.adapters.key_ring import SqlKeyRing
from producer.adapters.ledger import SqlLedger, new_id, open_migrated
from producer.adapters.outbox import SqlOutbox
from producer.intake import Intake
from producer.policy.gate import OpenGate
from producer.relay import Reconciler, Relay
from schemas.settings import Settings

SILENT_LEASES = 2
"""Leases that a worker may miss before its tickets are queued again."""


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

    def close(self) -> None:
        """Lets go of the ledger."""
        self.engine.dispose()


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
        intake=Intake(ledger, OpenGate(), settings.all_jobs(), new_id),
    )
