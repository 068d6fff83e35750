"""Commands about the edge: who is turned away before a connection exists."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import print_json, print_table, print_text, safe_line

if TYPE_CHECKING:
    from ops.edge.facts import EdgeFacts, ListFacts
    from ops.edge.sync import Plan

PANEL = "Set up"


class Place(StrEnum):
    """What turns sources away."""

    NFTABLES = "nftables"
    HAPROXY = "haproxy"


For = Annotated[Place, typer.Option("--for", help="What turns sources away.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Turn floods and known bad addresses away before they connect.")
    for command in (render, sync, show):
        group.command()(command)
    app.add_typer(group, name="edge", rich_help_panel=PANEL)


def render(place: For = Place.NFTABLES, config: Config = None) -> None:
    """Print the rules that the settings ask for, for `nft -f` or `haproxy -f`."""
    from ops.edge import haproxy, nftables
    from ops.edge.sync import haproxy_file
    from producer.adapters.settings_file import read_settings

    settings = read_settings(config)
    if place is Place.NFTABLES:
        print(nftables.render(settings.edge, settings.http.port), end="")
    else:
        print(haproxy.render(settings.edge, settings.http, haproxy_file(settings)), end="")


def sync(
    apply: Annotated[bool, typer.Option("--apply", help="Put it in force; without this it is only tried.")] = False,
    place: For = Place.NFTABLES,
    config: Config = None,
    json: Json = False,
) -> None:
    """Fetch the reputation lists and block what is on them. Where one fails, its last good copy stays."""
    from ops.edge.sync import apply_to_haproxy, apply_to_kernel, plan
    from producer.adapters.settings_file import read_settings

    settings = read_settings(config)
    now = datetime.now(UTC)
    planned = plan(settings, now)
    if apply:
        (apply_to_kernel if place is Place.NFTABLES else apply_to_haproxy)(settings, planned, now)
    if json:
        print_json({"applied": apply, "lists": planned.lists, "blocked": _blocked(planned)})
    else:
        _tell_plan(planned, place, applied=apply)
    if any(each.why for each in planned.lists):
        raise typer.Exit(1)


def _blocked(planned: Plan) -> dict[str, int]:
    return {f"ipv{version}": sum(each.version == version for each in planned.blocked) for version in (4, 6)}


def _tell_plan(planned: Plan, place: Place, *, applied: bool) -> None:
    if not planned.lists:
        print_text("No reputation lists are named under edge.lists.")
    else:
        print_table(
            "Reputation lists",
            ("list", "copy", "networks", "new", "gone", "left out", "unreadable", "expires"),
            [
                (each.name, each.state, each.networks, each.added, each.gone, each.skipped, each.unreadable,
                 _clock(each.expires_at))
                for each in planned.lists
            ],
        )  # fmt: skip
    for each in planned.lists:
        if each.why:
            print_text(f"{each.name}: {safe_line(each.source)} {safe_line(each.why)}")
    total = _stretches(_blocked(planned))
    if not applied:
        print_text(f"Tried only. With --apply these would be blocked: {total}.")
    elif place is Place.NFTABLES:
        print_text(f"Blocked now: {total}.")
    else:
        print_text(f"Written: {total}. Reload HAProxy to block them.")


def _stretches(counts: dict[str, int]) -> str:
    return f"stretches of addresses: {counts['ipv4']:,} of IPv4, {counts['ipv6']:,} of IPv6"


def show(config: Config = None, json: Json = False) -> None:
    """Show who is banned, what was dropped, and how old the reputation lists are."""
    from ops.edge.facts import edge_facts
    from producer.adapters.settings_file import read_settings

    facts = edge_facts(read_settings(config), datetime.now(UTC))
    if json:
        print_json(facts)
    else:
        _tell_facts(facts)


def _tell_facts(facts: EdgeFacts) -> None:
    if facts.kernel is None:
        print_text(f"The kernel was not asked: {safe_line(facts.why)}")
    else:
        dropped = facts.kernel.dropped
        row = (dropped["over_rate"], dropped["banned"], dropped["blocked"])
        print_table("Packets dropped", ("over the rate", "banned", "on a list"), [row])
        bans = [(ban.source, _clock(ban.until)) for ban in facts.kernel.bans]
        if bans:
            print_table("\nBanned now", ("source", "until"), bans)
        else:
            print_text("\nNobody is banned now.")
        print_text(f"\nBlocked by lists: {_stretches(facts.kernel.blocked)}.")
    if facts.lists:
        columns = ("list", "source", "networks", "fetched", "expires")
        print_table("\nReputation lists", columns, [_list_row(each) for each in facts.lists])
    else:
        print_text("No reputation lists are named under edge.lists.")


def _list_row(each: ListFacts) -> tuple[object, ...]:
    expires = f"{_clock(each.expires_at)}{' (expired)' if each.expired else ''}"
    return each.name, each.source, each.networks, _clock(each.fetched_at), expires


def _clock(at: datetime | None) -> str:
    return "never" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
