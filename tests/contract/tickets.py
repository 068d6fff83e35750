"""Tickets in a ledger, as intake leaves them, for the suites of the workers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from schemas.envelope import Stub
from schemas.ledger import new_id, reading, writing
from schemas.states import State
from schemas.tables import answers, attempts, history, tickets
from schemas.ticket import Priority, Ticket
from workers.ports import Delivery

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def put(
    engine: Engine,
    count: int = 1,
    *,
    priority: Priority = Priority.NORMAL,
    body: str = "Where is my parcel?",
    job: str = "reply",
    conversation: str = "",
    deadline: datetime | None = None,
    time_limit: float | None = None,
    tenant: str = "acme",
    now: datetime = NOON,
) -> list[Stub]:
    """Queued and published tickets; of one conversation, only the first is published and the others are held."""
    stubs: list[Stub] = []
    rows: list[dict[str, Any]] = []
    for number in range(count):
        ticket_id = new_id(now)
        ticket = Ticket(
            id=ticket_id,
            tenant=tenant,
            received_at=now,
            body=body,
            job=job,
            priority=priority,
            external_id=ticket_id,
            conversation=conversation,
            deadline=deadline,
            time_limit=time_limit,
        )
        held = bool(conversation and number)
        rows.append(
            {
                "id": ticket_id,
                "tenant": tenant,
                "source": "api",
                "external_id": ticket_id,
                "revision": "1",
                "conversation": conversation,
                "sequence": number + 1,
                "job": job,
                "priority": priority.rank,
                "document": msgspec.json.encode(ticket).decode(),
                "state": State.QUEUED.value,
                "delivery": 1,
                "starts": 0,
                "worker": "",
                "reason": "",
                "received_at": now,
                "due_at": None if held else now,
                "published_at": None if held else now,
                "settled_at": None,
            }
        )
        stubs.append(
            Stub(id=ticket_id, delivery=1, priority=priority, tenant=tenant, job=job, conversation=conversation)
        )
    with writing(engine) as connection:
        for first in range(0, count, 1000):
            connection.execute(sa.insert(tickets), rows[first : first + 1000])
    return stubs


def delivery_of(stub: Stub, *, redelivered: bool = False) -> Delivery:
    """A message that says so."""
    return Delivery(stub=stub, token=f"token of {stub.id}", queue="ticketmill.normal", redelivered=redelivered)


def row(engine: Engine, ticket_id: str) -> sa.RowMapping:
    """One ticket's row."""
    with reading(engine) as connection:
        return connection.execute(sa.select(tickets).where(tickets.c.id == ticket_id)).mappings().one()


def rows_of(engine: Engine, what: str, ticket_id: str) -> list[sa.RowMapping]:
    """One ticket's ``history``, ``attempts`` or ``answers``, in order."""
    table = {"history": history, "attempts": attempts, "answers": answers}[what]
    order = table.c.ticket_id if what == "answers" else table.c.id
    with reading(engine) as connection:
        return list(
            connection.execute(sa.select(table).where(table.c.ticket_id == ticket_id).order_by(order)).mappings()
        )


def states(engine: Engine) -> dict[str, int]:
    """How many tickets are in each state."""
    query = sa.select(tickets.c.state, sa.func.count()).group_by(tickets.c.state)
    with reading(engine) as connection:
        return dict(connection.execute(query).all())
