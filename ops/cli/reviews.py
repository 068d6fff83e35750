"""Commands about human review."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from ops.cli.options import Config
from ops.cli.screen import json_line, print_table, safe_line
from schemas.review import Holder, Lane, Role, Wanted

PANEL = "Tickets"

_EVERYBODY = Holder(id="", tenant="", label="", role=Role.OPERATOR)


class Format(StrEnum):
    """How reviews are printed."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


def register(app: typer.Typer) -> None:
    """Adds this command to the command line."""
    app.command(rich_help_panel=PANEL)(reviews)


def reviews(
    config: Config = None,
    lane: Annotated[
        Lane, typer.Option(help="Which list: in review, rejected, or wanting a second opinion.")
    ] = Lane.OPEN,
    tenant: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
    decisions: Annotated[bool, typer.Option("--decisions", help="Every decision so far instead.")] = False,
    format: Annotated[Format, typer.Option(help="What to print; csv is for decisions.")] = Format.TABLE,
) -> None:
    """Show what waits for a person, or every decision that people have made."""
    from ops.opened import opened_producer
    from producer.web.reviews import csv_lines

    with opened_producer(config) as producer:
        lists = producer.review_lists()
        if decisions or format is Format.CSV:
            rulings = lists.rulings(tenant)
            if format is Format.CSV:
                for line in csv_lines(rulings):
                    print(line, end="")
            elif format is Format.JSONL:
                for ruling in rulings:
                    print(json_line(ruling))
            else:
                columns = ("at", "ticket", "tenant", "reviewer", "step", "reason", "note", "was", "undone")
                print_table("Decisions", columns, ([str(getattr(each, name)) for name in columns] for each in rulings))
            return
        now = datetime.now(UTC)
        page = lists.page(_EVERYBODY, Wanted(lane=lane, tenant=tenant, most=200), now)
    if format is Format.JSONL:
        for item in page.items:
            print(json_line(item))
        return
    print_table(
        f"{page.counts[lane]} tickets; judge them at /review",
        ("ticket", "tenant", "waits", "priority", "job", "why", "text"),
        [
            (
                item.id,
                item.tenant,
                f"{(now - item.received_at).total_seconds() / 3600:.1f} h",
                item.priority,
                item.job,
                item.code or item.why,
                safe_line(item.subject or item.excerpt, longest=60),
            )
            for item in page.items
        ],
    )
