"""The ``ticketmill`` command: it parses and prints, nothing else.

One file a group of commands; what they show is gathered elsewhere in ``ops``. Exit codes: 0 all is well, 1 something
failed, 2 the input or the command line is wrong. ``TICKETMILL_DEBUG`` in the environment shows tracebacks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from schemas.errors import Refused, TicketmillError


def main() -> None:
    """Entry point of the console script. A reader that went away (``ticketmill answers | head``) is exit 1, quietly."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 1
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. What we raise on purpose becomes one line on stderr."""
    from ops.cli.commands import app

    try:
        app(list(arguments), prog_name="ticketmill")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except TicketmillError as error:
        if os.environ.get("TICKETMILL_DEBUG"):
            raise
        return _complain(str(error), 2 if isinstance(error, Refused) else 1)
    except ModuleNotFoundError as error:
        from ops.extras import hint

        advice = hint(error.name or "")
        if advice is None:
            raise
        return _complain(advice, 1)
    return 0


def _complain(line: str, code: int) -> int:
    from ops.cli.screen import safe_line

    print(f"ticketmill: {safe_line(line)}", file=sys.stderr)
    return code
