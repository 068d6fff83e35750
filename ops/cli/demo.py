"""``ticketmill demo`` and what it shows: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import Config, Json
from ops.cli.screen import print_json, print_table, print_text, safe_line
from schemas.states import State

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ops.demo.progress import Progress, Summary

    See = Callable[[Progress], None]

LINE_EVERY_S = 5.0
_SHOWN = (State.QUEUED, State.RUNNING, State.ANSWERED, State.WAITING, State.PARKED, State.DEAD)


def register(app: typer.Typer) -> None:
    """Adds this command to the command line."""
    app.command(rich_help_panel="Run")(demo)


def demo(
    config: Config = None,
    json: Json = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running afterwards, until Ctrl-C.")] = False,
    home: Annotated[Path | None, typer.Option(help="Where its files go; a temporary folder if not given.")] = None,
) -> None:
    """Show Ticketmill at work: 80 tickets of every kind, answered before your eyes in about three minutes."""
    from ops.cli.running import stop_on_signals
    from ops.demo.run import run_demo
    from ops.demo.stage import set_stage
    from ops.embedded import Embedded

    began = datetime.now(UTC)
    stage = set_stage(config, home)
    with open(Path(stage.settings.home) / "demo.log", "a", encoding="utf-8", buffering=1) as log:

        def note(part: str, line: str) -> None:
            print(f"{part:<6} | {line}", file=log)

        embedded = Embedded(stage.settings, stage.environment, note)
        stop_on_signals(embedded)
        try:
            with _view(began, quiet=json) as see:
                result = run_demo(stage, embedded, began, see)
            if json:
                print_json(result)
            else:
                _tell(result, keep)
            if keep:
                print_text(f"\nIt goes on at {embedded.api_url}; Ctrl-C ends it.", stderr=json)
                embedded.watch()
        finally:
            embedded.stop()
    raise typer.Exit(0 if result.all_final else 1)


@contextmanager
def _view(began: datetime, quiet: bool) -> Generator[See]:
    def seconds() -> float:
        return (datetime.now(UTC) - began).total_seconds()

    if quiet:
        yield lambda _: None
    elif sys.stdout.isatty():
        from rich.live import Live

        with Live(refresh_per_second=4) as live:
            yield lambda seen: live.update(_screen(seen, seconds()))
    else:
        yield _lines(seconds)


def _lines(seconds: Callable[[], float]) -> See:
    due_s, told = 0.0, False

    def see(seen: Progress) -> None:
        nonlocal due_s, told
        now_s = seconds()
        if seen.latest and not told:
            told = True
            first = seen.latest[-1]
            print_text(f"{now_s:5.0f} s  first answer, {first.external_id} ({first.job}): {safe_line(first.text, 100)}")
        if now_s >= due_s or seen.final == seen.total:
            due_s = now_s + LINE_EVERY_S
            states = ", ".join(f"{count} {state}" for state, count in sorted(seen.states.items()))
            print_text(f"{now_s:5.0f} s  {seen.final} of {seen.total} settled ({states}); {_doing(seen)}")

    return see


def _doing(seen: Progress) -> str:
    return f"batch size {seen.batch_size}" if seen.stays else "the worker loads its model"


def _screen(seen: Progress, now_s: float) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from ops.demo.progress import batch_sizes, sparkline

    states = "   ".join(f"{state.value} {seen.states.get(state.value, 0)}" for state in _SHOWN)
    sizes = sparkline(batch_sizes(seen.stays, 30))
    latest = Table(box=None, pad_edge=False, show_header=False)
    for each in seen.latest:
        text = Text(safe_line(each.text, longest=90))
        latest.add_row(Text(safe_line(each.external_id), style="dim"), Text(each.job, style="cyan"), text)
    return Group(
        Text(f"\n{now_s:.0f} s   {seen.final} of {seen.total} tickets settled   {seen.settled_per_s:.1f} tickets/s"),
        ProgressBar(total=max(seen.total, 1), completed=seen.final, width=60),
        Text(states, style="bold"),
        Text(f"{_doing(seen)}   {sizes}"),
        Text("\nThe last answers:", style="bold"),
        latest,
    )


def _tell(result: Summary, keep: bool) -> None:
    from ops.demo.progress import sparkline

    print_table("\nTickets", ("state", "tickets"), result.tickets.items())
    first = "none" if result.first_answer_s is None else f"{result.first_answer_s:.0f} s after the start"
    last = f"{result.seconds:.0f} s after the start" if result.all_final else "no: see what is left above"
    figures = [
        ("first answer", first),
        ("all settled", last),
        ("tickets/s", f"{result.tickets_per_s:.2f}"),
        ("from acceptance to the end", f"p50 {result.p50_s:.1f} s, p95 {result.p95_s:.1f} s (all were sent at once)"),
        ("batch size over time", f"{sparkline(result.batch_sizes)}  largest {result.largest_batch}"),
    ]
    print_table("\nFigures", ("", ""), figures)
    print_text("\nWhere to look next (its files stay until you remove them):")
    for command in ("answers", "show demo-003", "dead", "status", *(["flower"] if keep else [])):
        print_text(f"  ticketmill {command} -c {result.config}")
    print_text(f"  {result.home}/demo.log: what broker, API and worker said")
    if not keep:
        print_text("  ticketmill demo --keep: leaves it running, so that `ticketmill flower` can be looked at too")
