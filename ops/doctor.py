"""What may be wrong with this installation, and how to mend it. Changes nothing.

Each check finds what it can on its own: one that cannot be made (a broker out of reach) leaves the others standing.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from ops import extras
from ops.broker_facts import broker_facts
from producer.adapters.ledger import open_migrated
from producer.adapters.settings_file import read_settings, settings_file
from schemas.errors import ModelRefused, TicketmillError, Unavailable
from schemas.ledger import place, reading, writing
from schemas.model import ModelSettings
from schemas.settings import Settings
from schemas.tables import strays, tickets, workers
from workers.engine.models.directory import inspected
from workers.engine.models.packaged import NAME, converted_place, gguf_file

LEAST_DISK_BYTES = 200 * 1000**2
GOOD_DISK_BYTES = 2 * 1000**3
SKEW_WARN_S = 2.0
OLDEST_REDIS = (7, 0)
OLDEST_RABBITMQ = (3, 10)
OLDEST_POSTGRESQL = (15, 0)


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """One line: what was looked at, how it is, and what to do about it."""

    level: Level
    what: str
    says: str
    fix: str = ""


Findings = Iterator[Finding]


def examine(named: Path | None, now: datetime) -> Findings:
    """Every check, in the order in which one would mend things."""
    yield from _versions()
    yield from _extras()
    try:
        settings = read_settings(named)
    except TicketmillError as error:
        yield Finding(Level.FAIL, "settings", str(error), "Mend the setting it names")
        return
    yield Finding(Level.OK, "settings", str(settings_file(named) or "defaults and environment"))
    for what, check in _CHECKS.items():
        try:
            yield from check(settings, now)
        except Unavailable as error:
            yield Finding(Level.FAIL, what, f"{error.part.removeprefix(what).strip()}: {error.why}", error.fix)
        except TicketmillError as error:
            yield Finding(Level.FAIL, what, str(error))


def _versions() -> Findings:
    found = [f"Python {platform.python_version()}"]
    for package in ("ticketmill", "celery", "kombu", "redis", "sqlalchemy", "torch", "transformers"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    yield Finding(Level.OK, "versions", ", ".join(found))


def _extras() -> Findings:
    for extra in extras.EXTRAS:
        absent = extras.missing(extra)
        if absent:
            why = f"without {', '.join(absent)}"
            yield Finding(
                Level.WARN, f"extra [{extra}]", why, f"If this machine needs it: {extras.install_command(extra)}"
            )
        else:
            yield Finding(Level.OK, f"extra [{extra}]", "installed")


def _home(settings: Settings, _now: datetime) -> Findings:
    home = Path(settings.home)
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    if not os.access(there, os.W_OK):
        yield Finding(Level.FAIL, "home", f"{there} cannot be written", "Set home to a folder of this user's")
        return
    yield Finding(Level.OK, "home", f"{home}{'' if there == home else ' (not there yet)'}")
    free = shutil.disk_usage(there).free
    level = Level.OK if free > GOOD_DISK_BYTES else Level.WARN if free > LEAST_DISK_BYTES else Level.FAIL
    fix = "" if level is Level.OK else "Free some space: a full disk stops the ledger and the broker"
    yield Finding(level, "disk", f"{free / 1e9:.1f} GB free at {there}", fix)


def _ledger(settings: Settings, now: datetime) -> Findings:
    ledger = open_migrated(settings.ledger.url)
    try:
        yield from _of_ledger(ledger, settings, now)
    finally:
        ledger.dispose()


def _of_ledger(ledger: Engine, settings: Settings, now: datetime) -> Findings:
    with writing(ledger) as connection:
        connection.execute(sa.update(tickets).values(reason=tickets.c.reason).where(sa.false()))
        serving = tuple(int(part) for part in connection.dialect.server_version_info or () if isinstance(part, int))
    yield Finding(Level.OK, "ledger", f"{place(ledger).removeprefix('ledger ')}, reachable, migrated, writable")
    if ledger.dialect.name == "postgresql":
        yield _age("PostgreSQL", serving, OLDEST_POSTGRESQL)
    yield from _life(ledger, settings, now)


def _broker(settings: Settings, _now: datetime) -> Findings:
    facts = broker_facts(settings.broker.url)
    numbers = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit())
    yield _age(facts.kind, numbers, OLDEST_RABBITMQ if facts.kind == "RabbitMQ" else OLDEST_REDIS)
    if facts.eviction and facts.eviction != "noeviction":
        fix = "CONFIG SET maxmemory-policy noeviction, and in its configuration file"
        yield Finding(Level.FAIL, "broker memory", f"policy {facts.eviction} drops messages when memory is full", fix)
    if not facts.keeps:
        fix = "CONFIG SET appendonly yes, and in its configuration file"
        says = "keeps nothing when it restarts; the ledger fills it again, which takes a while"
        yield Finding(Level.WARN, "broker persistence", says, fix)
    if facts.clock_ahead_s is not None:
        skewed = abs(facts.clock_ahead_s) > SKEW_WARN_S
        fix = "Synchronise both machines with NTP: leases are timed by the broker, the ledger by us" if skewed else ""
        says = f"the broker's is {facts.clock_ahead_s:+.2f} s off ours"
        yield Finding(Level.WARN if skewed else Level.OK, "clock", says, fix)


def _age(what: str, found: tuple[int, ...], oldest: tuple[int, int]) -> Finding:
    shown = f"{what} {'.'.join(map(str, found[:2]))}"
    if tuple(found[:2]) >= oldest:
        return Finding(Level.OK, what, f"{shown}, reachable")
    return Finding(Level.FAIL, what, f"{shown} is too old", f"Upgrade to {oldest[0]}.{oldest[1]} or newer")


def _models(settings: Settings, _now: datetime) -> Findings:
    for name, model in settings.models.items():
        try:
            yield _model(f"model {name}", model, Path(settings.home))
        except ModelRefused as error:
            yield Finding(Level.FAIL, f"model {name}", f"{error.model} {error.why}", error.fix)


def _model(what: str, model: ModelSettings, home: Path) -> Finding:
    # Reads headers only: neither torch nor the weights are loaded, so that a machine without them can ask too.
    directory = converted_place(home) if model.path == NAME else Path(model.path)
    if model.path == NAME and not directory.is_dir():
        if gguf_file() is None:
            return Finding(Level.FAIL, what, f"{NAME} is not installed", "Run `ticketmill model install`")
        return Finding(Level.OK, what, f"{NAME}, installed; the first start converts it, which takes 20 s")
    facts = inspected(model.path, directory)
    return Finding(Level.OK, what, f"{directory}, {facts.parameters / 1e6:,.0f} million parameters")


def _life(ledger: Engine, settings: Settings, now: datetime) -> Findings:
    with reading(ledger) as connection:
        seen = connection.execute(sa.select(workers.c.name, workers.c.seen_at)).all()
        stray_count = connection.execute(sa.select(sa.func.count()).select_from(strays)).scalar_one()
    awake = [row.name for row in seen if (now - row.seen_at).total_seconds() < 2 * settings.worker.lease]
    if awake:
        yield Finding(Level.OK, "workers", f"{len(awake)} seen lately: {', '.join(awake)}")
    else:
        yield Finding(
            Level.WARN, "workers", "none seen lately: tickets wait", "Run `ticketmill up` or `ticketmill worker`"
        )
    if stray_count:
        says = f"{stray_count:,} messages were no ticket"
        yield Finding(Level.WARN, "strays", says, "See `ticketmill dead`")


_CHECKS: dict[str, Callable[[Settings, datetime], Findings]] = {
    "home": _home,
    "ledger": _ledger,
    "broker": _broker,
    "model": _models,
}
