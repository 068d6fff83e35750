"""What commands work with, opened from the settings in force and closed again."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import Engine

from producer.adapters.ledger import open_migrated
from producer.adapters.settings_file import read_settings
from producer.boot import Producer, open_producer
from schemas.settings import Settings


@contextmanager
def opened_ledger(named: Path | None) -> Generator[tuple[Settings, Engine]]:
    """The settings and the ledger they name, known to be there and of our version."""
    settings = read_settings(named)
    engine = open_migrated(settings.ledger.url)
    try:
        yield settings, engine
    finally:
        engine.dispose()


@contextmanager
def opened_producer(named: Path | None) -> Generator[Producer]:
    """The producer's parts over that ledger."""
    producer = open_producer(read_settings(named))
    try:
        yield producer
    finally:
        producer.close()
