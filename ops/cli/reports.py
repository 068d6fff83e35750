"""Commands that look and tell."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import json_line, print_json, print_table, print_text, safe_line
from schemas.ticket import Priority

if TYPE_CHECKING:
    from ops.status import Status

PANEL = "Look"
WATCH_S = 2.0
CLEAR = "\x1b[H\x1b[2J"


class Device(StrEnum):
    """What computes in a benchmark of the engine."""

    CPU = "cpu"
    CUDA = "cuda"


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    for command in (status, doctor, bench):
        app.command(rich_help_panel=PANEL)(command)


def status(
    config: Config = None,
    json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again every two seconds, until Ctrl-C.")] = False,
) -> None:
    """Show tickets per state and priority, queue depths, workers, and how fast it goes."""
    from ops.opened import opened_ledger
    from ops.status import status as status_now

    with opened_ledger(config) as (settings, ledger):
        while True:
            now = status_now(ledger, settings.broker.url, datetime.now(UTC))
            if watch and json:
                print_text(json_line(now))
            elif json:
                print_json(now)
            else:
                print_text(CLEAR if watch else "", end="")
                _tell_status(now)
            if not watch:
                return
            time.sleep(WATCH_S)


def bench(
    name: Annotated[str, typer.Argument(help="Which: enqueue, drain, gate, sizing or engine.")],
    quick: Annotated[bool, typer.Option("--quick", help="Under a minute: for a look, not for the record.")] = False,
    redis_url: Annotated[str, typer.Option(help="Use this Redis, which must be empty, not a private one.")] = "",
    rabbitmq_url: Annotated[str, typer.Option(help="Use this RabbitMQ, which must be empty, not a private one.")] = "",
    data: Annotated[Path | None, typer.Option(help="For gate: judge the shipped one on this folder.")] = None,
    device: Annotated[Device, typer.Option(help="For engine: what computes.")] = Device.CPU,
    config: Config = None,
    json: Json = False,
) -> None:
    """Measure Ticketmill: against plain Celery, its gate on texts, its sizing over a day, its engine against others."""
    from ops.bench import NAMES, run_bench
    from ops.extras import require
    from producer.adapters.settings_file import read_settings
    from schemas.errors import Refused

    if name not in NAMES:
        raise Refused("name", f"{name!r} is none of {', '.join(NAMES)}")
    if name not in ("gate", "sizing"):
        require("worker")

    def note(line: str) -> None:
        print_text(line, stderr=True)

    report = run_bench(
        name,
        quick=quick,
        redis_url=redis_url,
        rabbitmq_url=rabbitmq_url,
        data=data,
        home=Path(read_settings(config).home).expanduser(),
        device=device.value,
        note=note,
    )
    if json:
        print_json(report)
        return
    for columns, rows in groupby(report.rows, key=tuple):
        print_table("\nRuns", columns, [tuple(row.values()) for row in rows])
    print_table("\nFigures", ("", ""), report.figures.items())
    for left_out in report.left_out:
        print_text(f"left out: {left_out}")


def _tell_status(now: Status) -> None:
    names = [priority.value for priority in Priority]
    print_table(
        "Tickets",
        ("state", *names, "all"),
        [
            (state, *(by_priority.get(name, 0) for name in names), sum(by_priority.values()))
            for state, by_priority in now.tickets.items()
        ],
    )
    oldest = "" if now.oldest_queued_s is None else f", the oldest queued waits since {now.oldest_queued_s:,.0f} s"
    print_text(f"\n{now.settled_per_s:.1f} tickets/s settled over the last minute{oldest}\n")
    if now.broker is None:
        print_text(safe_line(now.broker_error))
    else:
        held = "" if now.broker.held is None else f", {now.broker.held:,} held by workers"
        print_table(
            f"Queues on {now.broker.kind} {now.broker.version}{held}",
            ("queue", "messages"),
            now.broker.queues.items(),
        )
    print_table(
        "\nWorkers",
        ("name", "model", "slots", "last seen"),
        [(each.name, each.model, each.slots, f"{each.silent_s:.0f} s ago") for each in now.workers],
    )
    if now.strays:
        print_text(f"\n{now.strays:,} stray messages: see `ticketmill dead`")


def doctor(config: Config = None, json: Json = False) -> None:
    """Check broker, ledger, model, versions, disk and workers; say what to fix. Changes nothing."""
    from ops.doctor import Level, examine

    findings = list(examine(config, datetime.now(UTC)))
    failed = any(each.level is Level.FAIL for each in findings)
    if json:
        print_json({"healthy": not failed, "findings": findings})
    else:
        for each in findings:
            fix = f". {each.fix}" if each.fix else ""
            print_text(f"{each.level.upper():<5}{safe_line(each.what + ': ' + each.says + fix)}")
    raise typer.Exit(int(failed))
