"""Tickets as the doors see them, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError

from producer.adapters.accepting import write_arrivals
from producer.ports import Arrival, Receipt, Stray
from schemas.answer import Answer, TicketView
from schemas.bulk import inserting
from schemas.errors import LedgerNotMigrated, LedgerUnavailable
from schemas.ledger import check_migrated, new_ids, open_ledger, place, reading, writing
from schemas.tables import answers, strays, tickets
from schemas.ticket import Priority

__all__ = ["SqlLedger", "new_ids", "open_migrated"]

MOST_TRIES = 5
"""How often a transaction that met another's copy of the same ticket is begun anew; by then the other is visible."""

PAGE = 500
"""Ids looked up in one query: well under every database's limit on parameters."""


def open_migrated(url: str) -> Engine:
    """The database at ``url``, once it is known to hold the tables that we work with. No file is made by looking.

    Raises:
        LedgerUnavailable: it cannot be reached.
        LedgerNotMigrated: it is not there yet or of another version; says what to run.
    """
    engine = open_ledger(url)
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).exists():
        raise LedgerNotMigrated(place(engine), "is not there yet", "Run `ticketmill up`, or `ticketmill migrate`")
    check_migrated(engine)
    return engine


class SqlLedger:
    """The doors' side of the ledger. Safe for any number of threads and processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def accept(self, arrivals: Sequence[Arrival], now: datetime) -> list[Receipt]:
        """Writes tickets durably, one receipt an arrival, in order. Ones known before change nothing."""
        for _ in range(MOST_TRIES):
            try:
                with writing(self._engine) as connection:
                    return write_arrivals(connection, arrivals, now)
            except IntegrityError:
                continue
        raise LedgerUnavailable(place(self._engine), "the same tickets are being written elsewhere", "Send them again")

    def keep(self, strays: Sequence[Stray], now: datetime) -> None:
        """Keeps messages that are no ticket; those kept before change nothing."""
        fresh = {stray.id: stray for stray in strays}
        with writing(self._engine) as connection:
            known = set(connection.scalars(_KNOWN_STRAYS, {"ids": list(fresh)}))
            rows = [msgspec.structs.asdict(stray) | {"at": now} for stray in fresh.values() if stray.id not in known]
            _insert_strays(connection, rows)

    def view(self, tenant: str, ticket_id: str) -> TicketView | None:
        """One ticket of that tenant with its answer; None if there is none."""
        return self.views(tenant, [ticket_id]).get(ticket_id)

    def views(self, tenant: str, ticket_ids: Sequence[str]) -> dict[str, TicketView]:
        """Those of the tickets that are there and that tenant's, by id."""
        found: dict[str, TicketView] = {}
        with reading(self._engine) as connection:
            for start in range(0, len(ticket_ids), PAGE):
                wanted = tickets.c.id.in_(ticket_ids[start : start + PAGE])
                rows = connection.execute(_VIEW.where(wanted, tickets.c.tenant == tenant)).mappings()
                found |= {row["id"]: _view(row) for row in rows}
        return found

    def find(self, tenant: str, external_id: str, source: str = "") -> list[TicketView]:
        """Tickets known by that external id, every revision, the newest first; from every source if none is named."""
        wanted = _VIEW.where(tickets.c.tenant == tenant, tickets.c.external_id == external_id)
        if source:
            wanted = wanted.where(tickets.c.source == source)
        with reading(self._engine) as connection:
            rows = connection.execute(wanted.order_by(tickets.c.id.desc()).limit(PAGE)).mappings()
            return [_view(row) for row in rows]


_insert_strays = inserting(strays)
_KNOWN_STRAYS = sa.select(strays.c.id).where(strays.c.id.in_(sa.bindparam("ids", expanding=True)))

_SEEN = ("id", "state", "priority", "job", "received_at", "external_id", "conversation", "reason", "settled_at")
_VIEW = sa.select(*(tickets.c[name] for name in _SEEN), answers.c.document.label("answer")).outerjoin(answers)
_answer = msgspec.json.Decoder(Answer)


def _view(row: sa.RowMapping) -> TicketView:
    fields: dict[str, Any] = dict(row)
    fields["priority"] = Priority.of_rank(row["priority"]).value
    fields["answer"] = None if row["answer"] is None else _answer.decode(row["answer"])
    return TicketView(**fields)
