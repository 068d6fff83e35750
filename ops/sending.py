"""Tickets put in from a command line: one, or a file of them, through the same intake as every other door's."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from producer.adapters.backfills import SqlBackfills
from producer.backfill.columns import Columns
from producer.backfill.rows import rows_of
from producer.backfill.run import Summary, run_backfill
from producer.boot import Producer
from producer.intake import Incoming, TurnedAway
from producer.ports import Receipt
from schemas.errors import Refused, Unavailable
from schemas.ticket import NewTicket


def send_one(producer: Producer, ticket: NewTicket, tenant: str) -> tuple[Receipt, str]:
    """Takes a ticket in; returns its receipt, and why it is not on the broker yet (empty if it is).

    A broker that is away is no failure: the ticket is in the ledger, and whoever relays publishes it later.

    Raises:
        Refused: the ticket asks for what there is not.
        Unavailable: it was throttled, or the ledger is away. Nothing was written then.
    """
    sender = producer.sender()
    try:
        (outcome,) = sender.take_in([Incoming(ticket=ticket, tenant=tenant)])
    finally:
        sender.close()
    if not isinstance(outcome, TurnedAway):
        return outcome, sender.trouble
    if outcome.retry_after_s is None:
        raise Refused(outcome.field, outcome.why)
    raise Unavailable(outcome.field, outcome.why, f"Send it again in {outcome.retry_after_s:.0f} s")


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of tickets and how to read it.

    Attributes:
        mapped: column by field of a ticket.
        constants: fields that are the same in every row.
        delimiter: of a CSV file; found in its first line if empty.
    """

    name: str
    mapped: Mapping[str, str]
    constants: Mapping[str, str]
    encoding: str = "utf-8"
    delimiter: str = ""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file. ``waits``: why what is in the ledger is not on the broker yet."""

    backfill: str
    rows: Summary
    waits: str


def send_file(
    producer: Producer,
    file: File,
    content: io.BufferedReader,
    tenant: str,
    progress: Callable[[Summary], None],
    refused: Callable[[int, str], None],
) -> Sent:
    """Takes every row of a file in, and notes in the ledger that this was done.

    Args:
        progress: told after every chunk.
        refused: told of each row that cannot be a ticket: the number of its line, and why.

    Raises:
        Refused: the file as a whole cannot be understood.
        LedgerUnavailable: some rows may be in and others not; sending it again is safe.
    """
    columns = Columns(file.mapped, file.constants)
    rows = rows_of(file.name, content, columns, encoding=file.encoding, delimiter=file.delimiter)
    backfills = SqlBackfills(producer.engine)
    sender = producer.sender()
    try:
        backfill = backfills.begin(tenant, file.name, datetime.now(UTC))
        chunk = producer.settings.relay.chunk
        done = run_backfill(rows, sender.take_in, tenant=tenant, chunk=chunk, progress=progress, refused=refused)
        backfills.end(backfill, read=done.read, new=done.new, refused=done.refused, now=datetime.now(UTC))
    finally:
        sender.close()
    return Sent(backfill=backfill, rows=done, waits=sender.trouble)
