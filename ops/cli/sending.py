"""Commands that put tickets in."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import print_json, print_text, safe_line
from schemas.errors import Refused
from schemas.ticket import Priority

if TYPE_CHECKING:
    from schemas.ticket import NewTicket

PANEL = "Tickets"
Text = Annotated[str, typer.Option()]


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    app.command(rich_help_panel=PANEL)(enqueue)


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
    from ops.enqueue import enqueue as take_in
    from producer.adapters.settings_file import read_settings
    from producer.boot import open_producer

    receipt, waits = take_in(open_producer(read_settings(config)), ticket, tenant, datetime.now(UTC))
    if json:
        print_json(
            {"id": receipt.ticket_id, "state": receipt.state, "duplicate": receipt.duplicate, "reason": receipt.reason}
        )
    else:
        print_text(receipt.ticket_id)
    if receipt.duplicate:
        print_text(f"ticketmill: that ticket was here before; it is {receipt.state}", stderr=True)
    if waits:
        print_text(f"ticketmill: accepted, and published once the broker is back ({safe_line(waits)})", stderr=True)


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
