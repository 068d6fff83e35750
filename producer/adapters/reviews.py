"""Claims and decisions of reviewers, in SQL. Every order is one transaction that first locks its tickets: what two
people order at once happens one after the other, and the second is told what the first has done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from producer.adapters.queueing import queue
from producer.adapters.review_lists import INITIAL_REASON, held_by, standing
from producer.policy.review import DECISIONS, UNDO_WITHIN, check, sampled
from schemas.ledger import Locked, Move, lock, move, new_ids, writing
from schemas.review import Done, Edit, Holder, Lane, Order, Role, Step, Turned
from schemas.states import State
from schemas.tables import claims, reviews, tickets
from schemas.ticket import Ticket, checked


class SqlReviews:
    """What reviewers do.

    Args:
        claim_for: how long a ticket that somebody has opened is nobody else's.
        undo_for: how long an accepted ticket is held before it is published, so that it can still be taken back.
        second_opinions: the share of decisions that somebody else judges again.
    """

    def __init__(
        self, engine: Engine, *, claim_for: timedelta, undo_for: timedelta, second_opinions: float = 0.0
    ) -> None:
        self._engine = engine
        self._claim_for = claim_for
        self._undo_for = undo_for
        self._second_opinions = second_opinions

    def carry_out(self, who: Holder, order: Order, now: datetime) -> Done:
        """Does what can be done of an order, and says of every other ticket why it could not be.

        Raises:
            Refused: the order itself makes no sense; nothing was done.
            LedgerUnavailable: nothing was done.
        """
        check(order)
        with writing(self._engine) as connection:
            if order.step is Step.UNDO:
                return _Undo(connection, who, now).last()
            locked = lock(connection, order.tickets)
            rows = {row.id: row for row in locked.values() if who.role is Role.OPERATOR or row.tenant == who.tenant}
            able = _Ability(connection, who, order, rows, now)
            refused = [Turned(id=each, why=why) for each in dict.fromkeys(order.tickets) if (why := able.lacks(each))]
            at_fault = {each.id for each in refused}
            fit = [rows[each] for each in dict.fromkeys(order.tickets) if each not in at_fault]
            self._do(connection, who, order, fit, able, now)
            return Done(done=[row.id for row in fit], refused=refused)

    def _do(
        self, connection: Connection, who: Holder, order: Order, rows: list[Locked], able: _Ability, now: datetime
    ) -> None:
        if order.step is not Step.NOTE:
            _drop_claims(connection, [row.id for row in rows])
        if order.step is Step.CLAIM:
            _claim(connection, who, rows, now + self._claim_for)
        if order.step in (Step.CLAIM, Step.RELEASE) or not rows:
            return
        before = _edited(connection, rows[0], order.edit) if order.edit else ""
        said = f"{order.step}ed in review by {who.label}" + (f" ({order.reason})" if order.reason else "")
        moving = [row for row in rows if _moves(order.step, row.state)]
        moved = {row.id for row in moving}
        if order.step is Step.ACCEPT:
            queue(connection, moving, said, now, due_at=now + self._undo_for)
        elif order.step is Step.REJECT:
            move(connection, [Move(row, State.REJECTED, said, changes={"due_at": None}) for row in moving], now)
        written = [
            {
                "id": new_id,
                "ticket_id": row.id,
                "tenant": row.tenant,
                "at": now,
                "reviewer": who.id,
                "step": order.step.value,
                "reason": order.reason.value,
                "note": order.note,
                "was": row.state.value,
                "delivery": row.delivery + (order.step is Step.ACCEPT and row.id in moved),
                "edited": before,
                "sampled": order.step in DECISIONS
                and order.lane is not Lane.SECOND
                and sampled(row.id, self._second_opinions),
                "first": able.first.get(row.id, ""),
            }
            for new_id, row in zip(new_ids(now, len(rows)), rows, strict=True)
        ]
        connection.execute(sa.insert(reviews), written)


def _moves(step: str, state: State) -> bool:
    """Whether a decision takes a ticket out of the state that it is in."""
    if step == Step.ACCEPT:
        return state in (State.IN_REVIEW, State.REJECTED)
    return step == Step.REJECT and state is State.IN_REVIEW


class _Ability:
    """What hinders this reviewer from taking this step."""

    def __init__(
        self, connection: Connection, who: Holder, order: Order, rows: Mapping[str, Locked], now: datetime
    ) -> None:
        self._order = order
        self._rows = rows
        self._others = {
            ticket_id: label
            for ticket_id, (holder, label, _) in held_by(connection, list(rows), now).items()
            if holder != who.id
        }
        decided = sa.select(reviews).where(reviews.c.ticket_id.in_(list(rows)), standing(reviews))
        past = connection.execute(decided.order_by(reviews.c.id)).all()
        self._judged = {row.ticket_id for row in past}
        self.first: dict[str, str] = {}
        if order.lane is Lane.SECOND and order.step is not Step.NOTE:
            answered = {row.first for row in past}
            self.first = {
                row.ticket_id: row.id
                for row in past
                if row.sampled and not row.first and row.reviewer != who.id and row.id not in answered
            }

    def lacks(self, ticket_id: str) -> str:
        """Why it cannot be; empty if it can."""
        row = self._rows.get(ticket_id)
        if row is None:
            return "there is no such ticket"
        if self._order.step is Step.NOTE:
            return ""
        if ticket_id in self._others:
            return f"{self._others[ticket_id]} has it open"
        if self._order.step is Step.RELEASE:
            return ""
        match self._order.lane:
            case Lane.OPEN:
                return "" if row.state is State.IN_REVIEW else "it has been decided already"
            case Lane.REJECTED:
                if row.state is not State.REJECTED:
                    return "it is no longer rejected"
                again = self._order.step is Step.REJECT and ticket_id in self._judged
                return "it has been judged already" if again else ""
            case Lane.SECOND:
                return "" if ticket_id in self.first else "no second opinion of yours is wanted on it"


class _Undo:
    """Takes back what this reviewer did last; all of it, where that was done to many at once."""

    def __init__(self, connection: Connection, who: Holder, now: datetime) -> None:
        self._connection = connection
        self._who = who
        self._now = now

    def last(self) -> Done:
        mine = sa.and_(
            reviews.c.reviewer == self._who.id,
            reviews.c.step.in_([*DECISIONS, Step.SKIP]),
            reviews.c.undone_at.is_(None),
            reviews.c.at > self._now - UNDO_WITHIN,
        )
        latest = sa.select(reviews.c.at).where(mine).order_by(reviews.c.id.desc()).limit(1).scalar_subquery()
        wanted = sa.select(reviews).where(mine, reviews.c.at == latest)
        locked = lock(self._connection, [row.ticket_id for row in self._connection.execute(wanted).all()])
        # Read again under the lock: the same person may press the key in two windows.
        done: list[str] = []
        refused: list[Turned] = []
        for row in self._connection.execute(wanted.where(reviews.c.ticket_id.in_(list(locked)))).all():
            if why := self._take_back(row, locked[row.ticket_id]):
                refused.append(Turned(id=row.ticket_id, why=why))
            else:
                done.append(row.ticket_id)
                undone = sa.update(reviews).where(reviews.c.id == row.id).values(undone_at=self._now)
                self._connection.execute(undone)
        return Done(done=done, refused=refused)

    def _take_back(self, row: sa.Row[Any], ticket: Locked) -> str:
        if not _moves(row.step, State(row.was)):
            return ""
        if row.step == Step.ACCEPT and (ticket.state is not State.QUEUED or ticket.delivery != row.delivery):
            return "a worker has begun it, or somebody else has judged it since"
        if row.step == Step.REJECT and ticket.state is not State.REJECTED:
            return "somebody else has accepted it since"
        changes: dict[str, Any] = {"due_at": None, "published_at": None}
        if row.edited:
            changes["document"] = row.edited
        reason = self._connection.scalars(INITIAL_REASON, {"ticket": ticket.id}).first() or ""
        move(self._connection, [Move(ticket, State(row.was), reason, changes=changes)], self._now)
        return ""


def _claim(connection: Connection, who: Holder, rows: Sequence[Locked], until: datetime) -> None:
    if rows:
        connection.execute(
            sa.insert(claims), [{"ticket_id": row.id, "reviewer": who.id, "until": until} for row in rows]
        )


def _drop_claims(connection: Connection, ids: Sequence[str]) -> None:
    connection.execute(sa.delete(claims).where(claims.c.ticket_id.in_(ids)))


def _edited(connection: Connection, row: Locked, edit: Edit) -> str:
    """Puts the new text into the ticket; returns its document as it was."""
    before = connection.scalars(sa.select(tickets.c.document).where(tickets.c.id == row.id)).one()
    ticket = msgspec.structs.replace(_ticket.decode(before), subject=edit.subject, body=edit.body)
    checked(ticket)
    document = msgspec.json.encode(ticket).decode()
    connection.execute(sa.update(tickets).where(tickets.c.id == row.id).values(document=document))
    return before


_ticket = msgspec.json.Decoder(Ticket)
