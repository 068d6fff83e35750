"""What people decided on tickets that the gate sent to review, read from the ledger's history."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from schemas.ledger import reading
from schemas.states import State
from schemas.tables import history, tickets, verdict_counts, verdicts
from schemas.ticket import Ticket

PAGE = 1000


class Decision(msgspec.Struct, frozen=True):
    """One ticket that a person decided on.

    Attributes:
        code: why the gate had sent it to review.
        honest: the person let it in.
    """

    ticket_id: str
    text: str
    code: str
    honest: bool


_DECIDED = (
    sa.select(history.c.id, history.c.ticket_id, history.c.after, verdicts.c.code, tickets.c.document)
    .join(verdicts, verdicts.c.ticket_id == history.c.ticket_id)
    .join(tickets, tickets.c.id == history.c.ticket_id)
    .where(
        history.c.before == State.IN_REVIEW.value,
        history.c.after.in_([State.QUEUED.value, State.REJECTED.value]),
        history.c.id > sa.bindparam("after_id"),
    )
    .order_by(history.c.id)
    .limit(PAGE)
)
_ticket = msgspec.json.Decoder(Ticket)


def decisions(ledger: Engine) -> Iterator[Decision]:
    """Every decision, the oldest first; read a page at a time."""
    after_id = 0
    while True:
        with reading(ledger) as connection:
            rows = connection.execute(_DECIDED, {"after_id": after_id}).all()
        for row in rows:
            ticket = _ticket.decode(row.document)
            text = f"{ticket.subject}\n{ticket.body}" if ticket.subject else ticket.body
            yield Decision(row.ticket_id, text, row.code, row.after == State.QUEUED.value)
        if len(rows) < PAGE:
            return
        after_id = rows[-1].id


def counted(ledger: Engine) -> dict[tuple[str, str], int]:
    """The number of all verdicts so far, by action and code."""
    query = sa.select(verdict_counts.c.action, verdict_counts.c.code, sa.func.sum(verdict_counts.c.count))
    with reading(ledger) as connection:
        rows = connection.execute(query.group_by(verdict_counts.c.action, verdict_counts.c.code))
        return {(action, code): int(count) for action, code, count in rows}
