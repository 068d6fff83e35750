"""The producer's way in, and eyes on the tables behind it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from producer.adapters.books import SqlBooks
from producer.adapters.ledger import SqlLedger
from producer.adapters.outbox import SqlOutbox
from producer.admission import OpenGate
from producer.intake import Incoming, Intake
from producer.ports import Receipt
from schemas.ledger import Move, lock, move, new_ids, reading, writing
from schemas.states import State
from schemas.tables import tickets
from schemas.ticket import NewTicket
from tests.ground.ledgers import TestLedger

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)


class Desk:
    """One way in, and eyes on the tables."""

    def __init__(self, ledger: TestLedger) -> None:
        self.engine = ledger.engine
        self.ledger = SqlLedger(ledger.engine)
        self.outbox = SqlOutbox(ledger.engine)
        self.books = SqlBooks(ledger.engine)
        self.intake = Intake(self.ledger, OpenGate(), {"reply", "triage"}, new_ids)

    def take(self, *sent: NewTicket, tenant: str = "acme", task_id: str = "", now: datetime = NOW) -> list[Receipt]:
        outcomes = self.intake.take_in([Incoming(ticket=each, tenant=tenant, task_id=task_id) for each in sent], now)
        assert all(isinstance(each, Receipt) for each in outcomes), outcomes
        return [each for each in outcomes if isinstance(each, Receipt)]

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        with reading(self.engine) as connection:
            return [dict(row) for row in connection.execute(sa.select(table)).mappings()]

    def row(self, ticket_id: str) -> dict[str, Any]:
        (row,) = (row for row in self.rows(tickets) if row["id"] == ticket_id)
        return row

    def to(self, ticket_id: str, *states: State, now: datetime = NOW, **changes: Any) -> None:
        """Moves a ticket as a worker would."""
        for state in states:
            with writing(self.engine) as connection:
                move(connection, [Move(lock(connection, [ticket_id])[ticket_id], state, changes=changes)], now)


def new(body: str = "My parcel is lost", **fields: Any) -> NewTicket:
    return NewTicket(body=body, **fields)
