"""Commands about the gate: how right it was, what it would say, and which version of it judges."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import print_json, print_table, print_text, safe_line

if TYPE_CHECKING:
    from ops.gate.report import Report
    from producer.policy.text.content import ContentModel

PANEL = "Set up"
Use = Annotated[bool, typer.Option("--use", help="Put the new version in use at once.")]


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="See how right the gate is, teach it, and go back to a version.")
    for command in (report, judge, train, learn, versions, use):
        group.command()(command)
    app.add_typer(group, name="gate", rich_help_panel=PANEL)


def report(config: Config = None, json: Json = False) -> None:
    """Show what people made of the tickets that the gate sent them, and how many honest ones it may have lost."""
    from ops.gate.decisions import counted, decisions
    from ops.gate.report import report as report_now
    from ops.opened import opened_ledger

    with opened_ledger(config) as (_, ledger):
        found = report_now(decisions(ledger), counted(ledger))
    if json:
        print_json(found)
    else:
        _tell_report(found)


def judge(
    text: Annotated[str, typer.Argument(help="A ticket's text.")], config: Config = None, json: Json = False
) -> None:
    """Show what the gate in use says of a text, and why. Writes nothing."""
    from producer.adapters.settings_file import read_settings
    from producer.boot import open_gate
    from schemas.ticket import Ticket

    settings = read_settings(config)
    ticket = Ticket(id="judged", tenant="default", body=text, received_at=datetime.now(UTC))
    (verdict,) = open_gate(settings).judge_held([ticket])
    if json:
        print_json(verdict)
        return
    print_text(f"{verdict.action.value} {verdict.code.value}".strip())
    for reason in verdict.reasons:
        print_text(f"  {safe_line(reason)}")
    print_table("", ("signal", "measure"), verdict.scores.items())


def train(
    folder: Annotated[Path, typer.Argument(help="Holds tickets_en, tickets_zh, spam and creative, each .jsonl.")],
    config: Config = None,
    put_in_use: Use = False,
    json: Json = False,
) -> None:
    """Train a new version on texts of your own (one of the files is enough). Takes a minute for ten thousand texts."""
    from ops.gate.corpus import read_corpus
    from ops.gate.training import trained

    def make(before: ContentModel) -> ContentModel:
        return trained(read_corpus(folder, some=True), before.letters)

    _new_version(config, make, put_in_use, json)


def learn(config: Config = None, put_in_use: Use = False, json: Json = False) -> None:
    """Make a new version from what people decided in review, within its guard rails."""
    from ops.gate.decisions import decisions
    from ops.gate.learning import learned
    from ops.opened import opened_ledger

    with opened_ledger(config) as (_, ledger):
        decided = list(decisions(ledger))
    _new_version(config, lambda before: learned(before, decided), put_in_use, json)


def versions(config: Config = None, json: Json = False) -> None:
    """List the versions of the gate; the shipped one is 0."""
    from ops.gate.versions import listed
    from producer.adapters.gate_versions import GateVersions
    from producer.adapters.settings_file import read_settings

    found = listed(GateVersions(read_settings(config).home))
    if json:
        print_json(found)
        return
    print_table(
        "Versions",
        ("version", "in use", "review from", "reject from", "texts", "decisions"),
        [
            (
                each.version,
                "yes" if each.in_use else "",
                f"{each.lines.review:.2f}",
                f"{each.lines.reject:.2f}",
                each.texts,
                each.decisions,
            )
            for each in found
        ],
    )


def use(
    version: Annotated[int, typer.Argument(help="Its number; 0 is the shipped one.")], config: Config = None
) -> None:
    """Put a version in use: the way back, too. Serving processes on this machine notice within seconds."""
    from producer.adapters.gate_versions import GateVersions
    from producer.adapters.settings_file import read_settings

    GateVersions(read_settings(config).home).use(version)
    print_text(f"version {version} is in use")


def _new_version(
    config: Path | None, make: Callable[[ContentModel], ContentModel], put_in_use: bool, json: bool
) -> None:
    from ops.gate.learning import honest_lost
    from producer.adapters.gate_versions import GateVersions
    from producer.adapters.settings_file import read_settings

    kept = GateVersions(read_settings(config).home)
    before = kept.load(kept.current())
    model = make(before)
    number = kept.add(model)
    if put_in_use:
        kept.use(number)
    if json:
        print_json({"version": number, "in_use": put_in_use, "lines": model.lines, "honest_lost": honest_lost(model)})
        return
    print_text(f"review from {model.lines.review:.2f} on (was {before.lines.review:.2f})")
    print_text(f"reject from {model.lines.reject:.2f} on (was {before.lines.reject:.2f})")
    print_text(f"honest texts of its training that it would reject: {honest_lost(model):.3%}")
    then = "is in use" if put_in_use else f"is kept; `ticketmill gate use {number}` puts it in use"
    print_text(f"version {number} {then}")


def _tell_report(found: Report) -> None:
    print_table(
        "What people made of what the gate had stopped",
        ("gate said", "because of", "judged", "honest", "abuse"),
        [(each.said, each.code, each.judged, each.honest, each.abuse) for each in found.rows],
    )
    print_table("\nVerdicts", ("", ""), found.verdicts.items())
    if found.honest_lost is None:
        print_text("\nNobody has looked at a rejected ticket yet: see the second list of /review.")
    else:
        print_text(
            f"\nHonest tickets lost: {found.honest_lost:.3%} of all, at most {found.honest_lost_at_most:.3%} "
            "(95 %), judged by the rejected ones that people looked at."
        )
