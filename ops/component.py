"""One part of an embedded installation: a child process on a leash, its output line by line."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ops import leash

LONGEST_LINE_BYTES = 64_000
"""A line of log that is longer is cut in pieces: a part that writes without end must not fill our memory."""


class Component:
    """A child that runs until it is told to stop, or until this process is gone, however that came about.

    Args:
        name: what its lines are marked with.
        command: program and arguments.
        environment: the child's whole environment.
        log: called with the name and each line of its output, on a thread of the component's own.
        inherit: file descriptors that the leash keeps open as long as the child lives (the lock on ``home``).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Callable[[str, str], None],
        inherit: Sequence[int] = (),
    ) -> None:
        self.name = name
        self._log = log
        leash_end, self._leash = os.pipe()
        self._output, output_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(leash.__file__)), *command],
                env=dict(environment),
                stdin=leash_end,
                stdout=output_end,
                stderr=subprocess.STDOUT,
                pass_fds=tuple(inherit),
                start_new_session=True,
            )
        finally:
            os.close(leash_end)
            os.close(output_end)
        self._held = True
        self._reader = threading.Thread(target=self._read, name=f"{name}-log", daemon=True)
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def tell_to_stop(self, grace_s: float) -> None:
        """Asks it to finish what it does; it is killed when it takes longer than that."""
        if self._held:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._leash, f"stop {grace_s}".encode())

    def let_go(self) -> None:
        """Gives up waiting for it to finish: it has a few seconds left."""
        if self._held:
            self._held = False
            os.close(self._leash)

    def wait(self) -> int:
        """Waits until it has ended and its last line is read; returns its exit code."""
        code = self._process.wait()
        self._reader.join()
        self.let_go()
        return code

    def _read(self) -> None:
        with open(self._output, "rb") as output:
            while line := output.readline(LONGEST_LINE_BYTES):
                self._log(self.name, line.decode(errors="replace").rstrip("\r\n"))
