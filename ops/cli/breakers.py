"""Commands about circuit breakers: what is left alone just now, and a hand on the switch."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import print_json, print_table, print_text, safe_line
from schemas.breaker import Breaker, closed, tripped
from schemas.errors import NotFound, Refused
from schemas.settings import Settings

PANEL = "Running"

Name = Annotated[str, typer.Argument(help="As `ticketmill breakers` shows it, like upstream:default.")]
Why = Annotated[str, typer.Option(help="Why, for whoever sees it.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    group = typer.Typer(invoke_without_command=True, help="See, open and close circuit breakers; without more: see.")
    group.callback()(show)
    group.command()(trip)
    group.command()(reset)
    app.add_typer(group, name="breakers", rich_help_panel=PANEL)


def show(context: typer.Context, config: Config = None, json: Json = False) -> None:
    """Show every breaker: of upstreams, of doors' processors, of workers' devices."""
    from ops.opened import opened_ledger
    from schemas.breakers import read_breakers
    from schemas.ledger import reading

    if context.invoked_subcommand is not None:
        return
    with opened_ledger(config) as (settings, ledger), reading(ledger) as connection:
        found = list((_unknown(settings) | read_breakers(connection)).values())
    if json:
        print_json({"breakers": found})
        return
    print_table(
        f"{len(found)} breakers",
        ("breaker", "mode", "since", "until", "opened", "reason"),
        (
            (each.name, each.mode, _at(each.since), _at(each.until or each.cool_until), each.times, _said(each))
            for each in found
        ),
    )


def trip(name: Name, config: Config = None, reason: Why = "", lasts: str = "10m") -> None:
    """Open a breaker by hand; it is tried again after `--lasts`. Needs an operator's key in TICKETMILL_KEY."""
    from schemas.units import Seconds

    try:
        opens_for = timedelta(seconds=Seconds.parse(lasts))
    except ValueError as error:
        raise Refused("--lasts", str(error)) from None

    def change(known: Breaker, who: str, now: datetime) -> Breaker:
        why = f"opened by {who}" + (f": {reason}" if reason else "")
        return tripped(closed(known, now), why, opens_for, opens_for, now)

    _change(name, config, change)


def reset(name: Name, config: Config = None) -> None:
    """Close a breaker by hand. Needs an operator's key in TICKETMILL_KEY."""
    _change(name, config, lambda known, _who, now: closed(known, now))


def _change(name: str, config: Config, change: Callable[[Breaker, str, datetime], Breaker]) -> None:
    from ops.opened import opened_ledger
    from producer.adapters.key_ring import SqlKeyRing
    from producer.api_keys import digest_of
    from schemas.breakers import change_breaker, read_breakers
    from schemas.ledger import reading, writing
    from schemas.review import Role

    now = datetime.now(UTC)
    with opened_ledger(config) as (settings, ledger):
        key = os.environ.get("TICKETMILL_KEY", "")
        holder = SqlKeyRing(ledger).holder(digest_of(key)) if key else None
        if holder is None or holder.role is not Role.OPERATOR:
            why = "must hold an operator's key; make one with `ticketmill key create --role operator`"
            raise Refused("TICKETMILL_KEY", why)
        with reading(ledger) as connection:
            if name not in _unknown(settings) | read_breakers(connection):
                raise NotFound("breaker", name)
        with writing(ledger) as connection:
            before, after = change_breaker(connection, name, now, lambda known: change(known, holder.label, now))
    print_text(f"{safe_line(name)}: {before.mode} -> {after.mode}")


def _unknown(settings: Settings) -> dict[str, Breaker]:
    """Those of upstreams that have never opened, of which the ledger has no row."""
    never = datetime.fromtimestamp(0, UTC)
    names = [f"upstream:{name}" for name, model in settings.used_models().items() if model.base_url]
    return {name: Breaker(name=name, since=never) for name in names}


def _at(moment: datetime | None) -> str:
    if moment is None or moment.year < 2000:
        return ""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _said(breaker: Breaker) -> str:
    return safe_line(breaker.reason, longest=120)
