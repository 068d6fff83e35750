"""Commands about what was given up: dead tickets, and messages that were no ticket."""

from __future__ import annotations

import csv
import getpass
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import json_line, print_json, print_table, print_text, safe_line
from ops.cli.tickets import clock_of, moment_of, tell_story
from schemas.cells import inert_cell
from schemas.errors import NotFound, Refused

if TYPE_CHECKING:
    from ops.facts import Lost, Stray, Which

PANEL = "Tickets"

Tenant = Annotated[str, typer.Option(help="Only this tenant's.")]
Job = Annotated[str, typer.Option(help="Only this job's.")]
Reason = Annotated[str, typer.Option(help="Only those whose reason has this in it.")]
Since = Annotated[str | None, typer.Option(help="Only given up since, like 2026-05-01 or 2026-05-01T12:00.")]


class Format(StrEnum):
    """How dead tickets are exported."""

    JSONL = "jsonl"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    group = typer.Typer(
        invoke_without_command=True, help="See, export and queue again what was given up; without a command: list."
    )
    group.callback()(_listed)
    for name, command in (("list", list_), ("show", show), ("requeue", requeue), ("export", export)):
        group.command(name)(command)
    app.add_typer(group, name="dead", rich_help_panel=PANEL)


def _listed(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_()


def list_(
    config: Config = None,
    json: Json = False,
    tenant: Tenant = "",
    job: Job = "",
    reason: Reason = "",
    since: Since = None,
) -> None:
    """List the tickets that were given up and the messages that were no ticket, with the reasons."""
    from ops.facts import dead_tickets, stray_messages
    from ops.opened import opened_ledger

    which = _which(tenant, job, reason, since)
    with opened_ledger(config) as (_, ledger):
        if json:
            print_json({"tickets": list(dead_tickets(ledger, which)), "strays": list(stray_messages(ledger))})
        else:
            _tell(dead_tickets(ledger, which), stray_messages(ledger))


def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="A ticket's id or external id, or a stray message's id.")],
    config: Config = None,
    json: Json = False,
) -> None:
    """Show one of them: a ticket's whole history, or a message's bytes."""
    from ops.facts import story, stray
    from ops.opened import opened_ledger

    with opened_ledger(config) as (_, ledger):
        try:
            ticket = story(ledger, name)
        except NotFound:
            message = stray(ledger, name)
            (print_json if json else _tell_stray)(message)
        else:
            (print_json if json else tell_story)(ticket)


def requeue(
    tickets: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Tickets' ids; or --all.")] = None,
    config: Config = None,
    all_: Annotated[bool, typer.Option("--all", help="All that the other options pick.")] = False,
    tenant: Tenant = "",
    job: Job = "",
    reason: Reason = "",
    since: Since = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
    json: Json = False,
) -> None:
    """Queue dead tickets again, with all their tries before them. Mend the cause first."""
    from ops.facts import dead_tickets
    from ops.opened import opened_ledger
    from producer.adapters.requeue import requeue as queue_again

    named = list(tickets or ())
    if bool(named) == all_:
        raise Refused("requeue", "name tickets, or pick them with --all")
    with opened_ledger(config) as (_, ledger):
        found = {each.id for each in dead_tickets(ledger, _which(tenant, job, reason, since))}
        wanted = sorted(found if all_ else found & set(named))
        if missing := sorted(set(named) - found):
            raise NotFound("dead ticket", missing[0])
        if wanted and not yes and not typer.confirm(f"Queue {len(wanted):,} tickets again?", err=True):
            raise typer.Exit(1)
        done = queue_again(ledger, wanted, getpass.getuser(), datetime.now(UTC))
    if json:
        print_json({"queued": done})
    else:
        print_text(f"{len(done):,} tickets queued again; `ticketmill serve` or `up` publishes them")


def export(
    config: Config = None,
    format: Annotated[Format, typer.Option(help="What to print.")] = Format.JSONL,
    tenant: Tenant = "",
    job: Job = "",
    reason: Reason = "",
    since: Since = None,
) -> None:
    """Print dead tickets whole, as they stream from the ledger."""
    from ops.facts import dead_tickets
    from ops.opened import opened_ledger

    with opened_ledger(config) as (_, ledger):
        found = dead_tickets(ledger, _which(tenant, job, reason, since))
        if format is Format.JSONL:
            for each in found:
                print(json_line(each))
            return
        writer = csv.writer(sys.stdout)
        writer.writerow(("id", "tenant", "external_id", "job", "priority", "at", "reason", "subject", "body"))
        for each in found:
            cells = (each.id, each.tenant, each.external_id, each.job, each.priority, each.at, each.reason)
            writer.writerow([inert_cell(str(cell)) for cell in (*cells, each.ticket.subject, each.ticket.body)])


def _which(tenant: str, job: str, reason: str, since: str | None) -> Which:
    from ops.facts import Which

    return Which(tenant=tenant, job=job, reason=reason, since=None if since is None else moment_of(since))


def _tell(tickets: Iterable[Lost], strays: Iterable[Stray]) -> None:
    print_table(
        "Dead tickets",
        ("ticket", "external id", "job", "priority", "reason"),
        ((each.id, each.external_id, each.job, each.priority, safe_line(each.reason, longest=160)) for each in tickets),
    )
    print_table(
        "\nStray messages (ticketmill dead show ID shows one)",
        ("id", "at", "queue", "reason"),
        ((each.id, clock_of(each.at), each.queue, each.reason) for each in strays),
    )


def _tell_stray(found: Stray) -> None:
    print_table(
        f"Stray message {found.id}", ("", ""), [("at", found.at), ("queue", found.queue), ("reason", found.reason)]
    )
    for name, raw in (("Headers", found.headers), ("Body", found.body)):
        print_text(f"\n{name} ({len(raw):,} bytes)")
        for line in _hex_lines(raw):
            print_text(line)


def _hex_lines(raw: bytes) -> Iterator[str]:
    for start in range(0, len(raw), 16):
        piece = raw[start : start + 16]
        seen = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        yield f"{start:08x}  {piece.hex(' '):<47}  {seen}"
