"""The transaction that takes tickets in: known ones found, new ones written with their history, their places in their
conversations, and the names that a Celery caller knows them by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from producer.adapters.conversations import places
from producer.adapters.known import Known
from producer.adapters.verdicts import write_verdicts
from producer.ports import Arrival, Receipt
from schemas.bulk import inserting
from schemas.envelope import Stub
from schemas.ledger import history_row, new_id, write_history
from schemas.states import State
from schemas.tables import aliases, tickets
from schemas.ticket import Ticket


def write_arrivals(connection: Connection, arrivals: Sequence[Arrival], now: datetime) -> list[Receipt]:
    """One receipt an arrival, in order.

    Raises:
        sqlalchemy.exc.IntegrityError: another transaction has just written one of them; begin anew.
    """
    known = Known(connection, arrivals)
    receipts: list[Receipt] = []
    fresh: dict[int, Arrival] = {}
    for arrival in arrivals:
        before = known.get(arrival)
        if before is not None:
            receipts.append(Receipt(ticket_id=before.id, state=before.state, duplicate=True))
            continue
        if known.taken(arrival.ticket.id):
            arrival = _renamed(arrival, now)
        known.add(arrival)
        fresh[len(receipts)] = arrival
        reason = "; ".join(arrival.verdict.reasons)
        receipts.append(
            Receipt(
                ticket_id=arrival.ticket.id,
                state=arrival.state,
                duplicate=False,
                reason=reason,
                code=arrival.verdict.code,
            )
        )
    _write(connection, fresh, receipts, now)
    _name(connection, arrivals, receipts, known)
    return receipts


_insert_tickets = inserting(tickets)
_insert_aliases = inserting(aliases)


def _write(connection: Connection, fresh: dict[int, Arrival], receipts: list[Receipt], now: datetime) -> None:
    rows: list[dict[str, Any]] = []
    for (at, arrival), spot in zip(fresh.items(), places(connection, list(fresh.values())), strict=True):
        due_at = max(now, arrival.not_before or now) if arrival.state is State.QUEUED and spot.head else None
        rows.append(_row(arrival, receipts[at].reason, spot.sequence, due_at))
        if due_at == now:
            receipts[at] = msgspec.structs.replace(receipts[at], stub=_stub(arrival.ticket))
    # The same order for all who write, so that two of them never wait for each other's unique keys.
    rows.sort(key=lambda row: (row["tenant"], row["source"], row["external_id"], row["revision"]))
    _insert_tickets(connection, rows)
    write_history(
        connection,
        [history_row(row["id"], "", State(row["state"]), now, 1) | {"reason": row["reason"]} for row in rows],
    )
    write_verdicts(connection, [(arrival.ticket, arrival.verdict) for arrival in fresh.values()], now)


def _name(connection: Connection, arrivals: Sequence[Arrival], receipts: Sequence[Receipt], known: Known) -> None:
    names: dict[str, str] = {}
    for arrival, receipt in zip(arrivals, receipts, strict=True):
        if arrival.task_id and not known.taken(arrival.task_id):
            names.setdefault(arrival.task_id, receipt.ticket_id)
    if not names:
        return
    given = set(connection.scalars(_GIVEN_NAMES, {"names": list(names)}))
    rows = [{"task_id": name, "ticket_id": ticket_id} for name, ticket_id in sorted(names.items())]
    _insert_aliases(connection, [row for row in rows if row["task_id"] not in given])


_GIVEN_NAMES = sa.select(aliases.c.task_id).where(aliases.c.task_id.in_(sa.bindparam("names", expanding=True)))


def _renamed(arrival: Arrival, now: datetime) -> Arrival:
    # Its task id is already another ticket's id: it keeps that as external id, and so is known when it comes again.
    return msgspec.structs.replace(arrival, ticket=msgspec.structs.replace(arrival.ticket, id=new_id(now)))


def _row(arrival: Arrival, reason: str, sequence: int, due_at: datetime | None) -> dict[str, Any]:
    ticket = arrival.ticket
    return {
        "id": ticket.id,
        "tenant": ticket.tenant,
        "source": ticket.source,
        "external_id": ticket.external_id,
        "revision": ticket.revision,
        "conversation": ticket.conversation,
        "sequence": sequence,
        "job": ticket.job,
        "priority": ticket.priority.rank,
        "document": msgspec.json.encode(ticket).decode(),
        "state": arrival.state.value,
        "delivery": 1,
        "starts": 0,
        "worker": "",
        "reason": reason,
        "received_at": ticket.received_at,
        "due_at": due_at,
        "published_at": None,
        "settled_at": ticket.received_at if arrival.state.final else None,
    }


def _stub(ticket: Ticket) -> Stub:
    return Stub(
        id=ticket.id,
        delivery=1,
        priority=ticket.priority,
        tenant=ticket.tenant,
        job=ticket.job,
        conversation=ticket.conversation,
    )
