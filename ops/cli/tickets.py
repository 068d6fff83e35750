"""Commands about tickets: putting them in, looking at them, taking answers out."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import json_line, print_json, print_table, print_text, safe_line, safe_text
from schemas.cells import inert_cell
from schemas.errors import Refused

if TYPE_CHECKING:
    from ops.facts import Answered, Story

PANEL = "Tickets"


class Format(StrEnum):
    """How answers are printed."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    for command in (show, answers):
        app.command(rich_help_panel=PANEL)(command)


def show(
    ticket: Annotated[str, typer.Argument(help="Its id, its Celery task id, or its external id.")],
    config: Config = None,
    json: Json = False,
) -> None:
    """Show a ticket's whole history: changes of state, attempts with their batch, and the answer."""
    from ops.facts import story
    from ops.opened import opened_ledger

    with opened_ledger(config) as (_, ledger):
        found = story(ledger, ticket)
    if json:
        print_json(found)
    else:
        tell_story(found)


def tell_story(found: Story) -> None:
    ticket = found.ticket
    rows = [(name, getattr(ticket, name)) for name in ticket.__struct_fields__ if name not in ("body", "metadata")]
    rows = [("state", found.state), ("reason", found.reason), *rows, *ticket.metadata.items()]
    print_table(f"Ticket {ticket.id}", ("", ""), [(name, value) for name, value in rows if value not in ("", None)])
    print_text("\n" + safe_text(ticket.body) + "\n")
    print_table(
        "History",
        ("at", "before", "after", "delivery", "worker", "reason"),
        [
            (clock_of(each.at), each.before, each.after, each.delivery, each.worker, each.reason)
            for each in found.history
        ],
    )
    if found.attempts:
        print_table(
            "\nAttempts",
            ("start", "seconds", "outcome", "batch", "size", "worker", "error"),
            [
                (
                    each.start,
                    (each.ended_at - each.started_at).total_seconds(),
                    each.outcome,
                    each.batch,
                    each.batch_size,
                    each.worker,
                    each.error,
                )
                for each in found.attempts
            ],
        )
    if found.answer is not None:
        print_text(f"\nAnswer ({safe_line(found.answer.model)}, {found.answer.usage.completion_tokens} tokens)")
        print_text(safe_text(found.answer.text))


def clock_of(at: datetime) -> str:
    return at.astimezone().strftime("%H:%M:%S.%f")[:-3]


def answers(
    config: Config = None,
    format: Annotated[Format, typer.Option(help="What to print.")] = Format.TABLE,
    job: Annotated[str | None, typer.Option(help="Only this job's.")] = None,
    since: Annotated[str | None, typer.Option(help="Only answered since, like 2026-05-01 or 2026-05-01T12:00.")] = None,
    external_id: Annotated[str | None, typer.Option(help="Only the ticket with this external id.")] = None,
) -> None:
    """Print the answers, as they stream from the ledger."""
    from ops.facts import answered
    from ops.opened import opened_ledger

    moment = None if since is None else moment_of(since)
    with opened_ledger(config) as (_, ledger):
        _PRINTERS[format](answered(ledger, job=job, since=moment, external_id=external_id))


def moment_of(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refused("--since", f"{text!r} is no date; write it like 2026-05-01 or 2026-05-01T12:00") from None
    return moment.astimezone(UTC)


def _print_jsonl(found: Iterable[Answered]) -> None:
    for each in found:
        print(json_line(each))


_CSV_COLUMNS = (
    "id", "tenant", "source", "external_id", "job", "priority", "answered_at", "model", "finish", "prompt_cut", "text",
)  # fmt: skip


def _print_csv(found: Iterable[Answered]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(_CSV_COLUMNS)
    for each in found:
        answer = each.answer
        row = (each.id, each.tenant, each.source, each.external_id, each.job, each.priority,
               each.answered_at.isoformat(), answer.model, answer.finish, answer.prompt_cut, answer.text)  # fmt: skip
        writer.writerow([inert_cell(str(cell)) for cell in row])


def _print_answers_table(found: Iterable[Answered]) -> None:
    rows = [
        (each.id, each.external_id if each.external_id != each.id else "", each.job, each.priority, _answer_line(each))
        for each in found
    ]
    print_table(f"{len(rows):,} answers", ("ticket", "external id", "job", "priority", "answer"), rows)


def _answer_line(each: Answered) -> str:
    return safe_line(each.answer.text, longest=120)


_PRINTERS = {Format.TABLE: _print_answers_table, Format.JSONL: _print_jsonl, Format.CSV: _print_csv}
