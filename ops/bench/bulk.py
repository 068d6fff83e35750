"""Our side: tickets through intake into a ledger of their own, and from there to the broker, as a backfill goes."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ops.bench.report import BenchFailed
from ops.migrate import migrate
from producer.boot import Producer, open_producer
from producer.intake import Incoming
from producer.ports import Receipt
from schemas.ledger import reading
from schemas.settings import Settings, load_settings
from schemas.tables import answers, tickets
from schemas.ticket import new_ticket_from

CHUNK = 500


def bench_settings(folder: Path, broker_url: str, slots: int = 32) -> Settings:
    """Settings of a run: a new ledger in this folder, an engine that computes nothing, that many slots."""
    batch = {"policy": "fixed", "start": slots, "cap": slots}
    file = {"home": str(folder), "broker": {"url": broker_url}, "worker": {"engine": "noop", "batch": batch}}
    settings = load_settings(file, {})
    migrate(settings.ledger.url)
    return settings


@contextmanager
def producing(settings: Settings) -> Generator[Producer]:
    """The producer's parts over the run's ledger."""
    producer = open_producer(settings)
    try:
        yield producer
    finally:
        producer.close()


def put_in(producer: Producer, rows: Iterable[dict[str, Any]]) -> int:
    """Rows to tickets, durable in the ledger, then on the broker and confirmed; returns how many."""
    relay = producer.relay()
    left = iter(rows)
    count = 0
    while chunk := list(islice(left, CHUNK)):
        now = datetime.now(UTC)
        incoming = [Incoming(ticket=new_ticket_from(row), tenant="bench") for row in chunk]
        receipts = [each for each in producer.intake.take_in(incoming, now) if isinstance(each, Receipt)]
        count += relay.hand_over([receipt.stub for receipt in receipts if receipt.stub is not None], now)
    return count


def in_ledger(settings: Settings) -> dict[str, int]:
    """Tickets by state, and under ``answers`` how many answers there are."""
    with producing(settings) as producer, reading(producer.engine) as connection:
        by_state = sa.select(tickets.c.state, sa.func.count()).group_by(tickets.c.state)
        found = {str(state): int(count) for state, count in connection.execute(by_state)}
        found["answers"] = connection.execute(sa.select(sa.func.count()).select_from(answers)).scalar_one()
    return found


def require(what: str, found: object, wanted: object) -> None:
    """Raises BenchFailed where a run lost something, or made too much of it."""
    if found != wanted:
        raise BenchFailed(f"{what}: {wanted} were to be there, and there are {found}")
