"""What people decided on tickets that the gate had stopped, read from the ledger."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from schemas.ledger import reading
from schemas.review import Step
from schemas.states import State
from schemas.tables import reviews, tickets, verdict_counts, verdicts
from schemas.ticket import Ticket
from schemas.verdict import Code

PAGE = 1000


class Decision(msgspec.Struct, frozen=True):
    """One ticket that a person decided on.

    Attributes:
        text: what the customer sent.
        code: why the gate had stopped it.
        rejected: the gate had rejected it: a person looked all the same.
        honest: the person let it in.
    """

    text: str
    code: str
    rejected: bool
    honest: bool


_DECIDED = (
    sa.select(
        reviews.c.id,
        reviews.c.step,
        reviews.c.was,
        sa.case((reviews.c.edited != "", reviews.c.edited), else_=tickets.c.document).label("document"),
        verdicts.c.code,
    )
    .join(tickets, tickets.c.id == reviews.c.ticket_id)
    .join(verdicts, verdicts.c.ticket_id == reviews.c.ticket_id)
    .where(
        reviews.c.step.in_([Step.ACCEPT.value, Step.REJECT.value]),
        reviews.c.undone_at.is_(None),
        reviews.c.first == "",
        reviews.c.id > sa.bindparam("after_id"),
    )
    .order_by(reviews.c.id)
    .limit(PAGE)
)
_ticket = msgspec.json.Decoder(Ticket)


def decisions(ledger: Engine) -> Iterator[Decision]:
    """Every decision that was not taken back, the oldest first; read a page at a time. Second opinions are left out."""
    after_id = ""
    while True:
        with reading(ledger) as connection:
            rows = connection.execute(_DECIDED, {"after_id": after_id}).all()
        for row in rows:
            ticket = _ticket.decode(row.document)
            text = f"{ticket.subject}\n{ticket.body}" if ticket.subject else ticket.body
            rejected = row.code == Code.SAMPLE or row.was == State.REJECTED
            yield Decision(text, row.code, rejected, row.step == Step.ACCEPT)
        if len(rows) < PAGE:
            return
        after_id = rows[-1].id


def counted(ledger: Engine) -> dict[tuple[str, str], int]:
    """The number of all verdicts so far, by action and code."""
    query = sa.select(verdict_counts.c.action, verdict_counts.c.code, sa.func.sum(verdict_counts.c.count))
    with reading(ledger) as connection:
        rows = connection.execute(query.group_by(verdict_counts.c.action, verdict_counts.c.code))
        return {(action, code): int(count) for action, code, count in rows}
