"""Commands that run something until they are stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from ops.cli.options import Config
from ops.cli.screen import print_text, safe_text

if TYPE_CHECKING:
    from ops.embedded import Embedded

PANEL = "Run"


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
    app.command(rich_help_panel=PANEL)(up)
    app.command(rich_help_panel=PANEL)(serve)
    handed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(rich_help_panel=PANEL, context_settings=handed_on)(worker)
    app.command(rich_help_panel=PANEL)(flower)


def up(config: Config = None) -> None:
    """Run everything on this machine: broker, ledger, API and worker. One Ctrl-C stops it all in order."""
    from ops.config import child_environment
    from ops.embedded import Embedded
    from producer.adapters.settings_file import read_settings

    embedded = Embedded(read_settings(config), child_environment(config), _line)
    stop_on_signals(embedded)
    try:
        embedded.start()
        _say_hello(embedded)
        embedded.watch()
        _line("up", "stopping: the worker finishes what runs; Ctrl-C again to hurry")
    finally:
        embedded.stop()


def _say_hello(embedded: Embedded) -> None:
    while not embedded.api_is_up():
        if embedded.watch(for_s=0.1):
            return
    _line("up", f"the API is at {embedded.api_url}")
    where = f"{embedded.home}/key"
    if embedded.key_is_new:
        _line("up", f"your API key, shown this once and kept in {where}: {embedded.key}")
    _line("up", "try, in another terminal:")
    _line("up", f"""  curl -s {embedded.api_url}/v1/tickets -H "Authorization: Bearer $(cat {where})" \\""")
    _line("up", """       -H 'Content-Type: application/json' -d '{"body": "Where is my parcel?"}'""")
    _line("up", "  ticketmill status; ticketmill answers; ticketmill flower")
    while not embedded.worker_is_up():
        if embedded.watch(for_s=0.2):
            return
    _line("up", "the worker is ready")


def serve(config: Config = None) -> None:
    """Run the HTTP API, the relay, the reconciler and the inlet: `python -m producer.serve`."""
    from ops.config import child_environment
    from ops.embedded import SERVE

    become(SERVE, child_environment(config))


def worker(context: typer.Context, config: Config = None) -> None:
    """Run a worker: `celery -A workers.app worker`. What follows the command is handed on to Celery."""
    from ops.config import child_environment
    from ops.embedded import WORKER
    from ops.extras import require

    require("worker")
    become([*WORKER, *context.args], child_environment(config))


def flower(config: Config = None) -> None:
    """Run Flower: every ticket under its own id, those of the past included. Read-only, on this machine."""
    from ops.extras import require
    from ops.flower import serve_flower
    from ops.opened import opened_ledger

    require("ops")
    with opened_ledger(config) as (settings, ledger):
        serve_flower(settings, ledger, lambda url: print_text(f"Flower is at {url}"))


def become(command: list[str], environment: Mapping[str, str]) -> None:
    """This process goes on as that program: signals then reach it without anyone in between."""
    sys.stdout.flush()
    os.execvpe(command[0], command, environment)


def stop_on_signals(embedded: Embedded) -> None:
    """Ctrl-C, SIGTERM and a closed terminal stop it in order."""

    def stop(_number: int, _frame: object) -> None:
        embedded.ask_to_stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


_COLOURS = {"up": "1", "broker": "35", "api": "36", "worker": "32"}
_one_at_a_time = threading.Lock()


def _line(part: str, text: str) -> None:
    if not text.strip():
        return
    name = f"{part:<6}"
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        name = f"\x1b[{_COLOURS.get(part, '0')}m{name}\x1b[0m"
    with _one_at_a_time:
        print(f"{name} | {safe_text(text)}", flush=True)
