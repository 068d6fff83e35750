"""Commands that look and tell."""

from __future__ import annotations

import typer

PANEL = "Look"


def register(app: typer.Typer) -> None:
    """Adds these commands to the command line."""
