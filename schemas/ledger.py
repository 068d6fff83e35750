"""The ledger: its transactions, and the only code that changes a ticket's state.

With ``tables`` the only file of this room that knows SQLAlchemy. ``move`` is the only way from state to state: it
checks the state machine, writes one row of history a change, and releases the next ticket of a conversation, all in
the caller's transaction. Everything works on lists: a batch costs a few statements, not a few a ticket.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import cache
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError

from schemas.bulk import Bulk, inserting
from schemas.errors import LedgerNotMigrated, LedgerUnavailable, SettingRefused
from schemas.states import FINAL, State, check_move
from schemas.tables import IN_CONVERSATION, conversations, history, tickets

HEAD = "0007"
"""Version of the tables that this code works with: the last file under ``alembic/versions``; a test compares."""

BUSY_TIMEOUT_S = 30.0
"""How long a SQLite writer waits for its turn. Transactions are short: one that waits longer is stuck."""


def new_id(now: datetime) -> str:
    """A UUIDv7 (RFC 9562): sorts by time, so that new rows land at the end of every index.

    Those that one process makes with the same ``now`` sort in the order they were made.
    """
    return new_ids(now, 1)[0]


def new_ids(now: datetime, count: int) -> list[str]:
    """So many of them, for a fraction of their price one by one."""
    time = (int(now.timestamp() * 1000) << 80) | (0x7 << 76) | (0x2 << 62)
    chance = secrets.token_bytes(6 * count).hex()
    ids: list[str] = []
    for start in range(0, 12 * count, 12):
        made = next(_made) & 0x3FFFFFF
        digits = f"{time | (made >> 14 << 64) | ((made & 0x3FFF) << 48):032x}"
        ids.append(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{chance[start : start + 12]}")
    return ids


_made = itertools.count(secrets.randbits(25))


def open_ledger(url: str) -> Engine:
    """An engine for ``sqlite:///path``, or ``postgresql://...``; nothing is connected yet.

    Raises:
        SettingRefused: the URL is none of these.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise SettingRefused("ledger.url", "is no database URL; use sqlite:///path or postgresql://...") from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "postgresql+psycopg":
        return sa.create_engine(parsed, pool_pre_ping=True)
    if parsed.drivername != "sqlite" or parsed.database in (None, "", ":memory:"):
        raise SettingRefused("ledger.url", "must be sqlite:///path/to/file or postgresql://...")
    engine = sa.create_engine(parsed, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    _turns[engine] = Lock()
    return engine


def place(engine: Engine) -> str:
    """Which ledger this is, for the person who reads it: its URL as it was given, without the password."""
    return f"ledger {engine.url.set(drivername=engine.dialect.name).render_as_string(hide_password=True)}"


def check_migrated(engine: Engine) -> None:
    """Raises LedgerNotMigrated, saying what to run, unless the tables are of the version this code works with."""
    with reading(engine) as connection:
        found = None
        if sa.inspect(connection).has_table("alembic_version"):
            found = connection.execute(sa.text("SELECT max(version_num) FROM alembic_version")).scalar_one()
    if found == HEAD:
        return
    if found is None:
        raise LedgerNotMigrated(place(engine), "has no tables yet", "Run `ticketmill migrate`")
    why = f"is at version {found} and this Ticketmill works with {HEAD}"
    raise LedgerNotMigrated(
        place(engine), why, "Run `ticketmill migrate`" if found < HEAD else "Install a newer Ticketmill"
    )


def _prepare_sqlite(dbapi: Any, _record: object) -> None:
    # The driver would begin its own deferred transactions, which deadlock between writers: we begin them ourselves.
    dbapi.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-65536"):
        dbapi.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    mode = "" if connection.get_execution_options().get("ledger_read_only") else " IMMEDIATE"
    connection.exec_driver_sql(f"BEGIN{mode}")


@contextmanager
def writing(engine: Engine) -> Generator[Connection]:
    """One short write transaction: all of it or nothing.

    Raises:
        LedgerUnavailable: the database cannot be reached, is full, or is read-only.
    """
    turn = _turns.get(engine)
    with _translated(engine), turn or nullcontext(), engine.begin() as connection:
        yield connection


_turns: WeakKeyDictionary[Engine, Lock] = WeakKeyDictionary()
# SQLite lets one write at a time, and those who wait ask again after 1 to 100 ms. Threads of one process take turns
# here instead, the next at once.


@contextmanager
def reading(engine: Engine) -> Generator[Connection]:
    """One short read transaction; takes no write lock.

    Raises:
        LedgerUnavailable: the database cannot be reached.
    """
    with _translated(engine), engine.connect().execution_options(ledger_read_only=True) as connection:
        yield connection


@contextmanager
def _translated(engine: Engine) -> Generator[None]:
    try:
        yield
    except (IntegrityError, DataError):
        raise  # what was to be written is at fault, not the ledger: to try again would change nothing
    except DBAPIError as error:
        why = " ".join(str(error.orig).split())
        raise LedgerUnavailable(place(engine), why, "Run `ticketmill doctor`") from error


class Locked(msgspec.Struct, frozen=True, gc=False):
    """A ticket's row, locked in the transaction that read it."""

    id: str
    tenant: str
    conversation: str
    sequence: int
    priority: int
    job: str
    state: State
    delivery: int
    starts: int
    worker: str
    spent: int


_IDS = sa.bindparam("ids", expanding=True)
_LOCK_CONVERSATIONS = (
    sa.select(conversations.c.last_sequence)
    .where(
        sa.tuple_(conversations.c.tenant, conversations.c.name).in_(
            sa.select(tickets.c.tenant, tickets.c.conversation).where(tickets.c.id.in_(_IDS), IN_CONVERSATION)
        )
    )
    .order_by(conversations.c.tenant, conversations.c.name)
    .with_for_update()
)
_STATE = Locked.__struct_fields__.index("state")
_LOCKED = sa.select(*(tickets.c[name] for name in Locked.__struct_fields__))


def lock(connection: Connection, ids: Sequence[str]) -> dict[str, Locked]:
    """Locks these tickets until the transaction ends. Ids that are not in the ledger are left out.

    Their conversations are locked before them, as intake locks them, and everything in one order: so two transactions
    never wait for each other. SQLite's writers come one at a time.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK_CONVERSATIONS, {"ids": list(ids)})
    rows = connection.execute(
        _LOCKED.where(tickets.c.id.in_(_IDS)).order_by(tickets.c.id).with_for_update(), {"ids": list(ids)}
    )
    return {row[0]: _locked(row) for row in rows.all()}


def _locked(row: Any) -> Locked:
    columns = list(row)
    columns[_STATE] = State(columns[_STATE])
    return Locked(*columns)


class Move(msgspec.Struct, frozen=True):
    """One ticket to another state. ``changes`` are further columns of its row to set."""

    ticket: Locked
    after: State
    reason: str = ""
    worker: str = ""
    changes: Mapping[str, Any] = {}


def move(connection: Connection, moves: Sequence[Move], now: datetime) -> None:
    """Moves locked tickets, writes their history, and releases the next ticket of each conversation that ended.

    Raises:
        ForbiddenMove: a move that the state machine does not know; the transaction must not be committed then.
    """
    by_columns: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for each in moves:
        check_move(each.ticket.id, each.ticket.state, each.after)
        values = dict(each.changes)
        values |= {"state": each.after.value, "reason": each.reason, "worker": each.worker}
        values["settled_at"] = now if each.after in FINAL else None
        by_columns.setdefault(tuple(values), []).append(values | {"ticket_id": each.ticket.id})
    for columns, rows in by_columns.items():
        _update(columns)(connection, rows)
    write_history(
        connection,
        [
            history_row(each.ticket.id, each.ticket.state, each.after, now, each.ticket.delivery)
            | {"reason": each.reason, "worker": each.worker}
            for each in moves
        ],
    )
    ended = {
        (each.ticket.tenant, each.ticket.conversation)
        for each in moves
        if each.ticket.conversation and each.after in FINAL
    }
    for tenant, name in sorted(ended):
        _release_next(connection, tenant, name, now)


@cache
def _update(columns: tuple[str, ...]) -> Bulk:
    statement = sa.update(tickets).where(tickets.c.id == sa.bindparam("ticket_id"))
    return Bulk(statement.values({name: sa.bindparam(name) for name in columns}))


write_history = inserting(history, "ticket_id", "at", "before", "after", "delivery", "reason", "worker")
"""Writes rows that ``history_row`` made."""


def history_row(ticket_id: str, before: State | str, after: State, now: datetime, delivery: int) -> dict[str, Any]:
    """One change of state as a row; ``before`` is empty for a ticket's first."""
    return {
        "ticket_id": ticket_id,
        "at": now,
        "before": str(before),
        "after": after.value,
        "delivery": delivery,
        "reason": "",
        "worker": "",
    }


def lock_conversation(connection: Connection, tenant: str, name: str) -> int:
    """Locks a conversation, made if need be, until the transaction ends; returns its last sequence number.

    Intake (is an earlier ticket still open?) and settlement (is a later one waiting?) both hold this lock when they
    look, so that neither misses what the other is about to do.
    """
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    statement = insert(conversations).values(tenant=tenant, name=name, last_sequence=0)
    returning = statement.on_conflict_do_update(
        index_elements=["tenant", "name"], set_={"last_sequence": conversations.c.last_sequence}
    ).returning(conversations.c.last_sequence)
    return connection.execute(returning).scalar_one()


def open_in_conversation(connection: Connection, tenant: str, name: str) -> sa.RowMapping | None:
    """The earliest ticket of a conversation that has no final state: its head. None if all are settled.

    Columns: ``id``, ``state``, ``due_at``.
    """
    query = (
        sa.select(tickets.c.id, tickets.c.state, tickets.c.due_at)
        .where(
            tickets.c.tenant == tenant,
            tickets.c.conversation == name,
            IN_CONVERSATION,
            tickets.c.state.not_in([state.value for state in FINAL]),
        )
        .order_by(tickets.c.sequence)
        .limit(1)
    )
    return connection.execute(query).mappings().one_or_none()


def _release_next(connection: Connection, tenant: str, name: str, now: datetime) -> None:
    lock_conversation(connection, tenant, name)
    head = open_in_conversation(connection, tenant, name)
    if head is not None and head["due_at"] is None and head["state"] == State.QUEUED:
        connection.execute(sa.update(tickets).where(tickets.c.id == head["id"]).values(due_at=now))
