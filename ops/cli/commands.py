"""The command line as a whole: every command, in the order that help shows them.

Each is imported when help or its own name asks for it; what it works with is imported when it runs.
"""

from __future__ import annotations

import typer

from ops.cli import breakers, dead, demo, edge, gate, reports, reviews, running, sending, setup, tickets

app = typer.Typer(
    help="Answers support tickets with a language model: nothing lost, nothing answered twice.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (running, breakers, demo, sending, tickets, dead, reviews, reports, setup, edge, gate):
    group.register(app)
