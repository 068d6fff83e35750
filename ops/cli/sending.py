"""Commands that put tickets in."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct, structs

from ops.cli.options import Config, Json
from ops.cli.screen import print_json, print_text, safe_line
from schemas.errors import Refused
from schemas.ticket import Priority

if TYPE_CHECKING:
    from producer.backfill.run import Summary
    from schemas.ticket import NewTicket

PANEL = "Tickets"
Text = Annotated[str, typer.Option()]


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    app.command(rich_help_panel=PANEL)(enqueue)
    app.command(rich_help_panel=PANEL)(backfill)


def enqueue(
    body: Annotated[
        str | None, typer.Option(help="What the customer wrote. Left out: the ticket is JSON on stdin.")
    ] = None,
    subject: Text = "",
    job: Annotated[str, typer.Option(help="What is wanted: reply, triage, summarise, or one of your own.")] = "",
    priority: Annotated[Priority | None, typer.Option(help="How soon it is due.")] = None,
    source: Annotated[str, typer.Option(help="Where it comes from.")] = "",
    external_id: Annotated[str, typer.Option(help="Its id there: sent again, it is the same ticket.")] = "",
    revision: Annotated[str, typer.Option(help="Which version of it.")] = "",
    conversation: Annotated[str, typer.Option(help="Tickets of one conversation are handled in order.")] = "",
    customer: Text = "",
    language: Text = "",
    region: Text = "",
    deadline: Annotated[str, typer.Option(help="Like 2026-05-01T12:00:00Z.")] = "",
    metadata: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be repeated.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose ticket it is.")] = "default",
    config: Config = None,
    json: Json = False,
) -> None:
    """Put one ticket in, from flags or as JSON on stdin, and print its id."""
    flags: dict[str, Any] = {
        "subject": subject,
        "job": job,
        "priority": priority.value if priority else "",
        "source": source,
        "external_id": external_id,
        "revision": revision,
        "conversation": conversation,
        "customer": customer,
        "language": language,
        "region": region,
        "deadline": deadline,
        "metadata": dict(map(_pair, metadata or [])),
    }
    given = {name: value for name, value in flags.items() if value}
    ticket = _from_stdin(given) if body is None else _from_flags({"body": body, **given})
    from ops.opened import opened_producer
    from ops.sending import send_one

    with opened_producer(config) as producer:
        receipt, waits = send_one(producer, ticket, tenant)
    if json:
        shown = {"id": receipt.ticket_id, "state": receipt.state, "duplicate": receipt.duplicate}
        print_json(shown | ({"reason": receipt.reason} if receipt.reason else {}))
    else:
        print_text(receipt.ticket_id)
    if receipt.duplicate:
        print_text(f"ticketmill: that ticket was here before; it is {receipt.state}", stderr=True)
    elif receipt.reason:
        print_text(f"ticketmill: {receipt.state}: {safe_line(receipt.reason)}", stderr=True)
    _say_what_waits(waits)


def _say_what_waits(waits: str) -> None:
    if waits:
        print_text(f"ticketmill: accepted; published once the broker is back ({safe_line(waits)})", stderr=True)


def backfill(
    file: Annotated[Path, typer.Argument(help="CSV or JSON lines; - for stdin.")],
    map: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=COLUMN,...", help="Which column is which field of a ticket. May be repeated."),
    ] = None,
    job: Annotated[str, typer.Option(help="What is wanted of every ticket.")] = "",
    priority: Annotated[Priority | None, typer.Option(help="Of every ticket; backfill if not given.")] = None,
    source: Annotated[str, typer.Option(help="Where they come from; backfill if not given.")] = "",
    language: Text = "",
    encoding: Annotated[str, typer.Option(help="How the file's text is written.")] = "utf-8",
    delimiter: Annotated[str, typer.Option(help="Of a CSV file; found in its first line if not given.")] = "",
    tenant: Annotated[str, typer.Option(help="Whose tickets they are.")] = "default",
    config: Config = None,
    json: Json = False,
) -> None:
    """Put a file of tickets in: CSV or JSON lines, row by row, and safe to run twice.

    Broken rows are named by their line and left out; the exit code is 2 then, and all the others are in.
    """
    from ops.opened import opened_producer
    from ops.sending import File, send_file
    from producer.backfill.columns import pairs

    constants = {"job": job, "priority": priority.value if priority else "", "source": source, "language": language}
    what = File(
        name=str(file),
        mapped=pairs("--map", [pair for each in map or [] for pair in each.split(",")]),
        constants={name: value for name, value in constants.items() if value},
        encoding=encoding,
        delimiter=delimiter,
    )
    refused: list[Broken] = []

    def note(line: int, why: str) -> None:
        if len(refused) < MOST_SHOWN:
            refused.append(Broken(line, why))

    with (
        opened_producer(config) as producer,
        _opened(file) as (content, size),
        _bar(content, size, quiet=json) as progress,
    ):
        sent = send_file(producer, what, content, tenant, progress, note)
    for each in refused:
        print_text(f"line {each.line}: {safe_line(each.why)}", stderr=True)
    if sent.rows.refused > len(refused):
        print_text(f"... and {sent.rows.refused - len(refused):,} more", stderr=True)
    if json:
        print_json({"backfill": sent.backfill, **structs.asdict(sent.rows), "lines": refused})
    else:
        rows = sent.rows
        counted = f"{rows.new:,} new, {rows.known:,} known before, {rows.refused:,} refused"
        print_text(f"{rows.read:,} rows: {counted}")
    _say_what_waits(sent.waits)
    raise typer.Exit(2 if sent.rows.refused else 0)


MOST_SHOWN = 100
"""Broken rows that are named; of a file that is broken throughout, the first ones tell it all."""


class Broken(Struct, frozen=True):
    """A row that is left out."""

    line: int
    why: str


@contextmanager
def _opened(file: Path) -> Generator[tuple[io.BufferedReader, int]]:
    if str(file) == "-":
        yield io.BufferedReader(sys.stdin.buffer), 0  # pyright: ignore[reportArgumentType] - any readable buffer does
        return
    try:
        with open(file, "rb") as content:
            yield content, file.stat().st_size
    except OSError as error:
        raise Refused(str(file), f"cannot be read: {error.strerror}") from None


@contextmanager
def _bar(content: io.BufferedReader, size: int, quiet: bool) -> Generator[Callable[[Summary], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=size or None)

        def show(rows: Summary) -> None:
            said = f"{rows.read:,} rows, {rows.new:,} new, {rows.known:,} known, {rows.refused:,} refused"
            bar.update(task, completed=content.tell() if size else 0, description=said)

        yield show


def _from_flags(fields: dict[str, Any]) -> NewTicket:
    from schemas.ticket import new_ticket_from

    return new_ticket_from(fields)


def _from_stdin(given: dict[str, Any]) -> NewTicket:
    from schemas.ticket import MAX_BODY_CHARS, decode_new_ticket

    if given:
        raise Refused(f"--{next(iter(given)).replace('_', '-')}", "goes with --body; a ticket on stdin says it itself")
    if sys.stdin.isatty():
        raise Refused("--body", "is missing; give it, or send the ticket as JSON on stdin")
    most_bytes = 20 * MAX_BODY_CHARS  # escaped as \\uXXXX, every character takes twelve bytes at most
    raw = sys.stdin.buffer.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise Refused("ticket", f"is over {most_bytes:,} bytes")
    return decode_new_ticket(raw)


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise Refused("--metadata", f"{text!r} is not NAME=VALUE")
    return name, value
