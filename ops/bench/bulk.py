"""Our side: tickets through intake into a ledger of their own, and from there to the broker, as a backfill goes."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ops.bench.report import BenchFailed
from ops.migrate import migrate
from producer.boot import Producer, open_producer
from producer.intake import Incoming
from schemas.ledger import reading
from schemas.settings import Settings, load_settings
from schemas.tables import answers, tickets
from schemas.ticket import new_ticket_from


def bench_settings(folder: Path, broker_url: str, slots: int = 32) -> Settings:
    """Settings of a run: a new ledger in this folder, an engine that computes nothing, that many slots.

    The gate is off: what it costs is measured by itself.
    """
    batch = {"policy": "fixed", "start": slots, "cap": slots}
    file = {
        "home": str(folder),
        "broker": {"url": broker_url},
        "worker": {"engine": "noop", "batch": batch},
        "anti_spam": {"enabled": False},
    }
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


def put_in(producer: Producer, rows: Iterable[dict[str, Any]]) -> None:
    """Rows to tickets, durable in the ledger, then on the broker and confirmed."""
    sender = producer.sender()
    left = iter(rows)
    try:
        while chunk := list(islice(left, producer.settings.relay.chunk)):
            sender.take_in([Incoming(ticket=new_ticket_from(row), tenant="bench") for row in chunk])
    finally:
        sender.close()
    require("trouble with the broker", sender.trouble, "")


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
