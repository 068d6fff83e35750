"""What the gate said, in SQL: a row for each ticket that it stopped, and the number of all its verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from schemas.bulk import inserting
from schemas.ledger import writing
from schemas.tables import verdict_counts, verdicts
from schemas.ticket import Ticket
from schemas.verdict import Action, Verdict

_insert = inserting(
    verdicts, "at", "ticket_id", "tenant", "source", "action", "code", "reasons", "scores", "retry_after_s"
)


def write_verdicts(connection: Connection, judged: Iterable[tuple[Ticket, Verdict]], now: datetime) -> None:
    """Keeps each verdict that was not simply to accept."""
    _insert(
        connection,
        [
            {
                "at": now,
                "ticket_id": ticket.id,
                "tenant": ticket.tenant,
                "source": ticket.source,
                "action": verdict.action.value,
                "code": verdict.code.value,
                "reasons": msgspec.json.encode(verdict.reasons).decode(),
                "scores": msgspec.json.encode(verdict.scores).decode(),
                "retry_after_s": verdict.retry_after_s,
            }
            for ticket, verdict in judged
            if verdict.action is not Action.ACCEPT
        ],
    )


class SqlTally:
    """Counts by hour, tenant, action and code."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def counted(
        self,
        counts: Mapping[tuple[str, str, str], int],
        samples: Sequence[tuple[Ticket, Verdict]],
        now: datetime,
    ) -> None:
        """Adds to the counts, and keeps some verdicts that left no ticket behind."""
        hour = now.replace(minute=0, second=0, microsecond=0)
        with writing(self._engine) as connection:
            # In one order, so that two processes never wait for each other.
            for (tenant, action, code), count in sorted(counts.items()):
                row = {"hour": hour, "tenant": tenant, "action": action, "code": code}
                connection.execute(_counting(connection), row | {"count": count})
            write_verdicts(connection, samples, now)


def _counting(connection: Connection) -> sa.Insert:
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    statement = insert(verdict_counts)
    more = verdict_counts.c.count + statement.excluded.count
    return statement.on_conflict_do_update(index_elements=["hour", "tenant", "action", "code"], set_={"count": more})
