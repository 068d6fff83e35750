"""What reviewers see: lists of tickets, one ticket whole, and every decision for export. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from producer.policy.review import DECISIONS, SKIPPED_FOR
from schemas.ledger import reading
from schemas.review import (
    COUNTED,
    Change,
    Decision,
    Holder,
    Item,
    Lane,
    Page,
    Role,
    Ruling,
    Sheet,
    Step,
    Wanted,
)
from schemas.states import State
from schemas.tables import api_keys, claims, history, reviews, tickets, verdicts
from schemas.ticket import Priority, Ticket

EXCERPT_CHARS = 240

PAGE = 500
"""Decisions read in one transaction of an export."""


class SqlReviewLists:
    """The reviewers' eyes.

    Args:
        sla: how long a ticket may wait for a person.
    """

    def __init__(self, engine: Engine, *, sla: timedelta) -> None:
        self._engine = engine
        self._sla = sla

    def page(self, who: Holder, wanted: Wanted, now: datetime) -> Page:
        """A page of a lane: the oldest first, or in an order of chance where it is a sample."""
        with reading(self._engine) as connection:
            query = _narrowed(_lane(who, wanted.lane, bool(wanted.ticket), now), wanted, connection, now)
            items = _items(connection, query.limit(wanted.most), who, now)
            counts = {lane.value: _count(connection, _lane(who, lane, False, now)) for lane in Lane}
        if wanted.lane is Lane.SECOND:
            items = [_unseen(item) for item in items]
        return Page(items=items, counts=counts, now=now, sla_s=self._sla.total_seconds())

    def sheet(self, who: Holder, ticket_id: str, unseen: bool, now: datetime) -> Sheet | None:
        """One ticket whole; None if there is none that this person may see.

        Args:
            unseen: leave out what others said of it.
        """
        with reading(self._engine) as connection:
            query = _TICKETS.where(tickets.c.id == ticket_id, _theirs(who))
            items = _items(connection, query, who, now)
            if not items:
                return None
            document = connection.scalars(sa.select(tickets.c.document).where(tickets.c.id == ticket_id)).one()
            ticket = _ticket.decode(document)
            verdict = _verdicts(connection, [ticket_id]).get(ticket_id)
            return Sheet(
                item=_unseen(items[0]) if unseen else items[0],
                body=ticket.body,
                metadata=ticket.metadata,
                scores=json.loads(verdict.scores) if verdict else {},
                history=[] if unseen else _history(connection, ticket_id),
                decisions=[] if unseen else _decisions(connection, ticket_id),
            )

    def rulings(self, tenant: str = "") -> Iterator[Ruling]:
        """Every decision of that tenant's tickets, or of all, the oldest first; in short transactions."""
        after = ""
        while True:
            with reading(self._engine) as connection:
                rows = connection.execute(_RULINGS, {"after": after, "tenant": tenant, "most": PAGE}).mappings().all()
            if not rows:
                return
            yield from (_ruling(row) for row in rows)
            after = rows[-1]["id"]


def standing(said: sa.FromClause) -> sa.ColumnElement[bool]:
    """A decision that nobody took back."""
    return sa.and_(said.c.step.in_(DECISIONS), said.c.undone_at.is_(None))


def held_by(connection: Connection, ids: Sequence[str], now: datetime) -> dict[str, tuple[str, str, datetime]]:
    """Who has which of these tickets open: the key's id, its label, and until when."""
    query = (
        sa.select(claims.c.ticket_id, claims.c.reviewer, api_keys.c.label, claims.c.until)
        .outerjoin(api_keys, api_keys.c.id == claims.c.reviewer)
        .where(claims.c.ticket_id.in_(ids), claims.c.until > now)
    )
    return {row[0]: (row[1], shown_label(row[1], row[2]), row[3]) for row in connection.execute(query).all()}


def shown_label(key_id: str, label: str | None) -> str:
    """What colleagues see of a key: its label, or the end of its id."""
    return label or f"key {key_id[-6:]}"


INITIAL_REASON = (
    sa.select(history.c.reason)
    .where(
        history.c.ticket_id == sa.bindparam("ticket"),
        history.c.after.in_([State.IN_REVIEW.value, State.REJECTED.value]),
    )
    .order_by(history.c.id)
    .limit(1)
)
"""Why a ticket first went to review, or was rejected: what the gate said."""

_TICKETS = sa.select(tickets)
_ticket = msgspec.json.Decoder(Ticket)
_luck = sa.func.substr(tickets.c.id, 25)
"""The part of an id that is pure chance: to sort by it is to shuffle, always in the same way."""


def _theirs(who: Holder) -> sa.ColumnElement[bool]:
    return sa.true() if who.role is Role.OPERATOR else tickets.c.tenant == who.tenant


def _lane(who: Holder, lane: Lane, judged_too: bool, now: datetime) -> sa.Select[Any]:
    said = reviews.alias()
    of_this = sa.exists().where(said.c.ticket_id == tickets.c.id)
    mine = sa.and_(said.c.reviewer == who.id, said.c.step == Step.SKIP, said.c.undone_at.is_(None))
    skipped = of_this.where(mine, said.c.at > now - SKIPPED_FOR)
    query = _TICKETS.where(_theirs(who), sa.not_(skipped))
    match lane:
        case Lane.OPEN:
            return query.where(tickets.c.state == State.IN_REVIEW.value).order_by(tickets.c.id)
        case Lane.REJECTED:
            query = query.where(tickets.c.state == State.REJECTED.value).order_by(_luck, tickets.c.id)
            return query if judged_too else query.where(sa.not_(of_this.where(standing(said))))
        case Lane.SECOND:
            other = reviews.alias()
            answered = sa.exists().where(other.c["first"] == said.c.id, other.c.undone_at.is_(None))
            open_question = sa.and_(
                said.c.sampled.is_(True), said.c["first"] == "", said.c.reviewer != who.id, sa.not_(answered)
            )
            return query.where(of_this.where(standing(said), open_question)).order_by(tickets.c.id)


def _narrowed(query: sa.Select[Any], wanted: Wanted, connection: Connection, now: datetime) -> sa.Select[Any]:
    for column in ("tenant", "job", "source"):
        if value := getattr(wanted, column):
            query = query.where(tickets.c[column] == value)
    if wanted.language:
        if connection.dialect.name == "postgresql":
            language = sa.cast(tickets.c.document, sa.JSON)["language"].as_string()
        else:
            language = sa.func.json_extract(tickets.c.document, "$.language")
        query = query.where(language == wanted.language)
    if wanted.reason:
        coded = sa.exists().where(verdicts.c.ticket_id == tickets.c.id, verdicts.c.code == wanted.reason)
        query = query.where(sa.or_(coded, tickets.c.reason.icontains(wanted.reason, autoescape=True)))
    if wanted.older_s:
        query = query.where(tickets.c.received_at <= now - timedelta(seconds=wanted.older_s))
    if wanted.ticket:
        query = query.where(sa.or_(tickets.c.id == wanted.ticket, tickets.c.external_id == wanted.ticket))
    if wanted.after and wanted.lane is Lane.REJECTED:
        past = wanted.after[24:]
        return query.where(sa.or_(_luck > past, sa.and_(_luck == past, tickets.c.id > wanted.after)))
    return query.where(tickets.c.id > wanted.after) if wanted.after else query


def _count(connection: Connection, query: sa.Select[Any]) -> int:
    ids = query.with_only_columns(tickets.c.id).order_by(None).limit(COUNTED).subquery()
    return connection.execute(sa.select(sa.func.count()).select_from(ids)).scalar_one()


def _items(connection: Connection, query: sa.Select[Any], who: Holder, now: datetime) -> list[Item]:
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    held = held_by(connection, ids, now)
    judged = _verdicts(connection, ids)
    firsts = _initial_reasons(connection, ids)
    items: list[Item] = []
    for row in rows:
        ticket = _ticket.decode(row.document)
        holder, label, until = held.get(row.id, ("", "", None))
        verdict = judged.get(row.id)
        items.append(
            Item(
                id=row.id,
                tenant=row.tenant,
                source=row.source,
                external_id=row.external_id,
                job=row.job,
                priority=Priority.of_rank(row.priority).value,
                language=ticket.language,
                customer=ticket.customer,
                subject=ticket.subject,
                excerpt=ticket.body[:EXCERPT_CHARS],
                state=State(row.state),
                received_at=row.received_at,
                why=firsts.get(row.id) or row.reason,
                code=verdict.code if verdict else "",
                claimed_by=label,
                claimed_until=until,
                mine=holder == who.id,
            )
        )
    return items


def _unseen(item: Item) -> Item:
    """The item as it was before anybody had judged it."""
    return msgspec.structs.replace(item, state=State.IN_REVIEW)


def _initial_reasons(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    stopped = history.c.after.in_([State.IN_REVIEW.value, State.REJECTED.value])
    query = sa.select(history.c.ticket_id, history.c.reason).where(history.c.ticket_id.in_(ids), stopped)
    # The last that is put in stays: that is the earliest.
    return {row[0]: row[1] for row in connection.execute(query.order_by(history.c.id.desc())).all()}


def _verdicts(connection: Connection, ids: Sequence[str]) -> dict[str, sa.Row[Any]]:
    query = sa.select(verdicts).where(verdicts.c.ticket_id.in_(ids)).order_by(verdicts.c.id)
    return {row.ticket_id: row for row in connection.execute(query).all()}


def _history(connection: Connection, ticket_id: str) -> list[Change]:
    query = sa.select(history).where(history.c.ticket_id == ticket_id).order_by(history.c.id)
    rows = connection.execute(query).all()
    return [Change(at=row.at, before=row.before, after=row.after, reason=row.reason) for row in rows]


def _decisions(connection: Connection, ticket_id: str) -> list[Decision]:
    query = (
        sa.select(reviews, api_keys.c.label)
        .outerjoin(api_keys, api_keys.c.id == reviews.c.reviewer)
        .where(reviews.c.ticket_id == ticket_id)
        .order_by(reviews.c.id)
    )
    return [
        Decision(
            at=row.at,
            reviewer=shown_label(row.reviewer, row.label),
            step=Step(row.step),
            reason=row.reason,
            note=row.note,
            second=bool(row.first),
            edited=bool(row.edited),
            undone=row.undone_at is not None,
        )
        for row in connection.execute(query).all()
    ]


_verdict = verdicts.alias()
_gate = sa.select(sa.func.max(_verdict.c.id)).where(_verdict.c.ticket_id == reviews.c.ticket_id).scalar_subquery()
_RULINGS = (
    sa.select(
        reviews,
        api_keys.c.label,
        *(tickets.c[name] for name in ("source", "external_id", "job", "state")),
        verdicts.c.code,
        verdicts.c.reasons,
    )
    .join(tickets, tickets.c.id == reviews.c.ticket_id)
    .outerjoin(api_keys, api_keys.c.id == reviews.c.reviewer)
    .outerjoin(verdicts, verdicts.c.id == _gate)
    .where(
        reviews.c.id > sa.bindparam("after"),
        sa.or_(sa.bindparam("tenant", type_=sa.String) == "", reviews.c.tenant == sa.bindparam("tenant")),
    )
    .order_by(reviews.c.id)
    .limit(sa.bindparam("most"))
)


def _ruling(row: sa.RowMapping) -> Ruling:
    return Ruling(
        at=row["at"],
        ticket=row["ticket_id"],
        tenant=row["tenant"],
        source=row["source"],
        external_id=row["external_id"],
        job=row["job"],
        state=row["state"],
        reviewer=shown_label(row["reviewer"], row["label"]),
        step=row["step"],
        reason=row["reason"],
        note=row["note"],
        was=row["was"],
        second_opinion=bool(row["first"]),
        edited=bool(row["edited"]),
        undone=row["undone_at"] is not None,
        gate_code=row["code"] or "",
        gate_said="; ".join(json.loads(row["reasons"] or "[]")),
    )
