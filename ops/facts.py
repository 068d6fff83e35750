"""What the ledger knows of tickets, as plain values: for ``status``, ``show``, ``answers`` and ``dead``. Reads only.

Long lists are read a page at a time by ticket id, each page in a transaction of its own: a SQLite reader that stays
open would keep the write-ahead log from shrinking.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from schemas.answer import Answer
from schemas.errors import NotFound
from schemas.ledger import reading
from schemas.states import State
from schemas.tables import aliases, answers, attempts, history, strays, tickets
from schemas.ticket import Priority, Ticket

PAGE = 500


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of state; ``before`` is empty for the first."""

    at: datetime
    before: str
    after: str
    delivery: int
    reason: str
    worker: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One stay in a slot."""

    start: int
    started_at: datetime
    ended_at: datetime
    worker: str
    batch: str
    batch_size: int
    outcome: str
    error: str


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one ticket."""

    ticket: Ticket
    state: str
    reason: str
    sequence: int
    history: list[Change]
    attempts: list[Attempt]
    answer: Answer | None


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One answered ticket on one line."""

    id: str
    tenant: str
    source: str
    external_id: str
    job: str
    priority: str
    answered_at: datetime
    answer: Answer


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A ticket that was given up, and why."""

    id: str
    tenant: str
    external_id: str
    job: str
    priority: str
    at: datetime | None
    reason: str
    ticket: Ticket


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was no ticket. ``headers`` and ``body`` are its bytes, base64 in JSON."""

    id: str
    at: datetime
    queue: str
    reason: str
    headers: bytes = b""
    body: bytes = b""


def story(ledger: Engine, name: str) -> Story:
    """A ticket by its id, by the Celery task id it came under, or by its external id.

    Raises:
        NotFound: nothing under that name, or the external id is that of several tickets.
    """
    with reading(ledger) as connection:
        row = connection.execute(sa.select(tickets).where(tickets.c.id == _id_of(connection, name))).one()
        changes = connection.execute(
            sa.select(*_columns(history, Change)).where(history.c.ticket_id == row.id).order_by(history.c.id)
        )
        stays = connection.execute(
            sa.select(*_columns(attempts, Attempt)).where(attempts.c.ticket_id == row.id).order_by(attempts.c.id)
        )
        told = [Change(**each) for each in changes.mappings()], [Attempt(**each) for each in stays.mappings()]
        answer = connection.execute(sa.select(answers.c.document).where(answers.c.ticket_id == row.id)).scalar()
    return Story(
        ticket=msgspec.json.decode(row.document, type=Ticket),
        state=row.state,
        reason=row.reason,
        sequence=row.sequence,
        history=told[0],
        attempts=told[1],
        answer=None if answer is None else msgspec.json.decode(answer, type=Answer),
    )


def _id_of(connection: sa.Connection, name: str) -> str:
    by_id = sa.select(tickets.c.id).where(tickets.c.id == name)
    by_task = sa.select(aliases.c.ticket_id).where(aliases.c.task_id == name)
    by_external_id = sa.select(tickets.c.id).where(tickets.c.external_id == name).limit(2)
    for query in (by_id, by_task, by_external_id):
        found = connection.execute(query).scalars().all()
        if len(found) > 1:
            raise NotFound("single ticket", name)
        if found:
            return found[0]
    raise NotFound("ticket", name)


def answered(
    ledger: Engine, *, job: str | None = None, since: datetime | None = None, external_id: str | None = None
) -> Iterator[Answered]:
    """Answered tickets in the order they were received, read a page at a time."""
    query = (
        sa.select(
            tickets.c.id,
            tickets.c.tenant,
            tickets.c.source,
            tickets.c.external_id,
            tickets.c.job,
            tickets.c.priority,
            answers.c.at,
            answers.c.document,
        )
        .join(answers, answers.c.ticket_id == tickets.c.id)
        .where(*([tickets.c.job == job] if job is not None else []))
        .where(*([answers.c.at >= since] if since is not None else []))
        .where(*([tickets.c.external_id == external_id] if external_id is not None else []))
    )
    for row in _paged(ledger, query, tickets.c.id):
        yield Answered(
            id=row.id,
            tenant=row.tenant,
            source=row.source,
            external_id=row.external_id,
            job=row.job,
            priority=Priority.of_rank(row.priority).value,
            answered_at=row.at,
            answer=msgspec.json.decode(row.document, type=Answer),
        )


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Dead tickets that are meant; empty means any.

    Attributes:
        reason: a part of it.
        since: given up since then.
    """

    tenant: str = ""
    job: str = ""
    reason: str = ""
    since: datetime | None = None


def dead_tickets(ledger: Engine, which: Which) -> Iterator[Lost]:
    """Tickets that were given up, in the order they were received."""
    query = sa.select(*(tickets.c[name] for name in ("id", "tenant", "external_id", "job", "priority", "settled_at")))
    query = query.add_columns(tickets.c.reason, tickets.c.document).where(tickets.c.state == State.DEAD.value)
    for column, wanted in ((tickets.c.tenant, which.tenant), (tickets.c.job, which.job)):
        query = query.where(column == wanted) if wanted else query
    if which.reason:
        query = query.where(tickets.c.reason.contains(which.reason, autoescape=True))
    if which.since is not None:
        query = query.where(tickets.c.settled_at >= which.since)
    for row in _paged(ledger, query, tickets.c.id):
        yield Lost(
            id=row.id,
            tenant=row.tenant,
            external_id=row.external_id,
            job=row.job,
            priority=Priority.of_rank(row.priority).value,
            at=row.settled_at,
            reason=row.reason,
            ticket=msgspec.json.decode(row.document, type=Ticket),
        )


def stray_messages(ledger: Engine) -> Iterator[Stray]:
    """Messages that were no ticket, oldest first, without their bytes."""
    for row in _paged(ledger, sa.select(strays.c.id, strays.c.at, strays.c.queue, strays.c.reason), strays.c.id):
        yield Stray(id=row.id, at=row.at, queue=row.queue, reason=row.reason)


def stray(ledger: Engine, stray_id: str) -> Stray:
    """One of them, bytes and all.

    Raises:
        NotFound: nothing under that id.
    """
    with reading(ledger) as connection:
        row = connection.execute(sa.select(strays).where(strays.c.id == stray_id)).mappings().one_or_none()
    if row is None:
        raise NotFound("stray message", stray_id)
    return Stray(**row)


def _paged(ledger: Engine, query: sa.Select[*tuple[Any, ...]], key: sa.Column[Any]) -> Iterator[sa.Row[Any]]:
    after = ""
    while True:
        with reading(ledger) as connection:
            rows = connection.execute(query.where(key > after).order_by(key).limit(PAGE)).all()
        yield from rows
        if len(rows) < PAGE:
            return
        after = rows[-1].id


def _columns(table: sa.Table, shape: type[msgspec.Struct]) -> list[sa.Column[Any]]:
    return [table.c[each] for each in shape.__struct_fields__]
