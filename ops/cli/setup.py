"""Commands that set things up: the ledger's tables, keys, models; and the schemas of what crosses a wire."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.cli.options import Config
from ops.cli.screen import print_json, print_text

PANEL = "Set up"


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    for command in (migrate, schema):
        app.command(rich_help_panel=PANEL)(command)


def migrate(config: Config = None) -> None:
    """Bring the ledger's tables to the version that this Ticketmill works with."""
    from ops.migrate import migrate as bring_up_to_date
    from producer.adapters.settings_file import read_settings

    settings = read_settings(config)
    bring_up_to_date(settings.ledger.url)
    print_text("The ledger is up to date.")


def schema(name: Annotated[str | None, typer.Argument(help="Leave it out for a list.")] = None) -> None:
    """Print the JSON Schema of something that crosses a wire, for instance `ticket`."""
    from ops.schema import WIRES, json_schema

    if name is None:
        print_text("\n".join(WIRES))
    else:
        print_json(json_schema(name))
