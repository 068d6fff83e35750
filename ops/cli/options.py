"""Options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings file; ticketmill.yaml in this folder if not given."),
]
Json = Annotated[bool, typer.Option("--json", help="Print facts as JSON.")]
