"""One backfill: rows in, tickets in the ledger, and a summary. Safe to run twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from producer.backfill.rows import Row
from producer.intake import Incoming, TurnedAway
from producer.ports import Receipt
from schemas.errors import Refused
from schemas.states import State
from schemas.ticket import NewTicket, Priority, new_ticket_from

SOURCE = "backfill"
"""Source of tickets whose file or command names none."""


class Summary(msgspec.Struct, kw_only=True):
    """What became of the rows so far. ``known`` were in the ledger before, for instance since the last run."""

    read: int = 0
    new: int = 0
    known: int = 0
    refused: int = 0


TakeIn = Callable[[Sequence[Incoming]], Sequence[Receipt | TurnedAway]]


def run_backfill(
    rows: Iterable[Row],
    take_in: TakeIn,
    *,
    tenant: str,
    chunk: int,
    progress: Callable[[Summary], None],
    refused: Callable[[int, str], None],
) -> Summary:
    """Takes every row in, a chunk a transaction.

    Args:
        take_in: the way in; what it returned is durable.
        progress: told after every chunk.
        refused: told of each row that cannot be a ticket: the number of its line, and why.

    Raises:
        LedgerUnavailable: some rows may be in and others not; run it again.
    """
    summary = Summary()
    waiting: list[tuple[int, Incoming]] = []

    def refuse(number: int, why: str) -> None:
        summary.refused += 1
        refused(number, why)

    def flush() -> None:
        outcomes = take_in([incoming for _, incoming in waiting]) if waiting else []
        for (number, _), outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, TurnedAway):
                refuse(number, f"{outcome.field}: {outcome.why}")
            elif outcome.duplicate:
                summary.known += 1
            elif outcome.state is State.REJECTED:
                refuse(number, f"ticket: {outcome.reason}")
            else:
                summary.new += 1
        waiting.clear()
        progress(summary)

    for number, fields in rows:
        summary.read += 1
        try:
            if isinstance(fields, Refused):
                raise fields
            waiting.append((number, Incoming(ticket=_ticket(number, fields), tenant=tenant)))
        except Refused as error:
            refuse(number, str(error))
        if len(waiting) >= chunk or summary.read % chunk == 0:
            flush()
    flush()
    return summary


def _ticket(number: int, fields: dict[str, Any]) -> NewTicket:
    ticket = new_ticket_from({"priority": Priority.BACKFILL.value, "source": SOURCE} | fields)
    if ticket.external_id:
        return ticket
    # The same line with the same content is the same ticket, however often its file is read.
    digest = hashlib.sha256(f"{number}\n".encode() + msgspec.json.encode(ticket)).hexdigest()
    return msgspec.structs.replace(ticket, external_id=f"line-{number}-{digest[:24]}")
