"""A tiny program between us and a child of ours: it ends the child when we let go of it, or are gone.

It holds the reading end of a pipe whose writing end is ours alone, so that the system itself tells it of our death,
even by kill -9, on every Unix. What we say to it over the pipe is one line: ``stop SECONDS``, the time the child may
take to finish. Runs as a script in an interpreter without site-packages: it costs 15 ms and a few megabytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time

PR_SET_PDEATHSIG = 1

ORPHAN_GRACE_S = 5.0
"""What a child may take once we are gone. Short: everything it does is safe to cut off, as by kill -9 itself."""


def main(command: list[str]) -> int:
    """Runs the command until it ends or is to end; returns its exit code, or 128 + the signal that ended it."""
    # A process group of its own: Ctrl-C at the terminal reaches us alone, and what the child starts ends with it.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_die_with_us)
    threading.Thread(target=_hold, args=(child,), daemon=True).start()

    def pass_on(_number: int, _frame: object) -> None:
        child.terminate()

    signal.signal(signal.SIGTERM, pass_on)
    code = child.wait()
    _kill(child)
    return code if code >= 0 else 128 - code


def _die_with_us() -> None:
    """Has the system end the child where this program itself is killed (Linux: elsewhere it would be left alone)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _hold(child: subprocess.Popen[bytes]) -> None:
    pipe = sys.stdin.fileno()
    wait_s: float | None = None
    while select.select([pipe], [], [], wait_s)[0]:
        said = os.read(pipe, 100)
        child.terminate()
        if not said:
            time.sleep(ORPHAN_GRACE_S)
            break
        wait_s = float(said.decode().removeprefix("stop "))
    _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
