"""One child process of a test: started with its output in a file, ended by its pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout."""


class Process:
    """A running program. Its children die with it at ``kill``, and it dies with the test run, however that ends.

    Attributes:
        pid: the program's own, not a wrapper's.
        log: file that holds what it wrote, both streams together.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str = "",
    ) -> None:
        self.log = log
        self.command = [str(part) for part in command]
        with log.open("ab") as out:
            self._child = subprocess.Popen(
                [*_wrapper(user), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        self.pid = self._child.pid

    @property
    def alive(self) -> bool:
        """It has not ended yet."""
        return self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if one ended it."""
        return self._child.poll()

    def output(self, last: int = 100_000) -> str:
        """What it has written so far, at most ``last`` characters of it."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-last:]

    def wait(self, seconds: float = 30.0) -> int:
        """Its exit code, once it has ended.

        Raises:
            AssertionError: it is still running after ``seconds``.
        """
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} still runs after {seconds:g} s; its log ends:\n{self.output(2000)}") from None

    def terminate(self) -> None:
        """Asks it to end (SIGTERM), as an operator would."""
        self._child.terminate()

    def interrupt(self) -> None:
        """Ctrl-C (SIGINT)."""
        self._child.send_signal(signal.SIGINT)

    def kill_alone(self) -> None:
        """SIGKILL to it and not to its children, as the out-of-memory killer would do it."""
        self._child.kill()
        self._child.wait()

    def kill(self) -> None:
        """SIGKILL to it and to the children it left in its group; returns once it is gone. Harmless when it is."""
        # The group outlives its leader while a child is in it; an empty one is gone.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and says nothing."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._child.send_signal(signal.SIGCONT)

    def __repr__(self) -> str:
        return f"process {self.pid} ({' '.join(self.command)[:80]})"


def _wrapper(user: str) -> list[str]:
    # setpriv becomes the program (same pid): the kernel ends it when the test run dies, even by SIGKILL.
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return []
    as_user = [f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
    return [setpriv, "--pdeathsig", "KILL", *as_user, "--"]
