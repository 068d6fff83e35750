"""What every real server under test can do: live, die, freeze, and come back on the same port and directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.ground.process import Process
from tests.ground.waiting import wait_until

RETRY_WITHIN_S = 20.0
"""How long a server that ends at once is started anew before the test is told."""


class Server:
    """A server of our own on a private port. Subclasses say how it is started and when it is ready.

    Attributes:
        url: where clients find it.
        port, directory: stay the same over ``kill`` and ``start``.
    """

    name = "server"
    start_within_s = 60.0

    url: str

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self._process: Process | None = None

    def command(self) -> list[str | Path]:
        """The program and its arguments; it must stay in the foreground."""
        raise NotImplementedError

    def ready(self) -> bool:
        """It answers."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str] | None:
        """Its whole environment; None for ours."""
        return None

    user = ""
    """User to run it as; empty for ours."""

    @property
    def pid(self) -> int:
        """Of the server itself."""
        return self._running().pid

    @property
    def alive(self) -> bool:
        """Started and not ended since."""
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Starts it and returns once it answers; after ``kill`` or ``stop``, with what it had kept."""
        assert not self.alive, f"{self.name} runs already"
        # A server killed a moment ago may leave its lock or its children behind for a moment: try again until then.
        wait_until(self._attempt, RETRY_WITHIN_S, why=self._log_tail)

    def bring_back(self) -> None:
        """Running and answering again, whatever a test did to it."""
        if self.alive:
            self.resume()
            wait_until(self.ready, self.start_within_s, why=self._log_tail)
        else:
            self.start()

    def stop(self) -> None:
        """Ends it in good order (SIGTERM)."""
        process = self._running()
        process.terminate()
        process.wait(60)

    def kill(self) -> None:
        """SIGKILL."""
        self._running().kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, as with a machine that hangs."""
        self._running().pause()

    def resume(self) -> None:
        """SIGCONT."""
        self._running().resume()

    def close(self) -> None:
        """Ends it for good, whatever state it is in."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _attempt(self) -> bool:
        self._process = Process(
            self.command(),
            log=self.directory / "server.log",
            env=self.environment(),
            cwd=self.directory,
            user=self.user,
        )
        wait_until(lambda: self.ready() or not self.alive, self.start_within_s, why=self._log_tail)
        return self.alive

    def _log_tail(self) -> str:
        return "" if self._process is None else f"; log ends:\n{self._process.output(2000)}"

    def _running(self) -> Process:
        assert self._process is not None, f"{self.name} was never started"
        return self._process


def binary(find: Callable[[], str | Path | None], what: str, package: str) -> Path:
    """The server's program; a test that needs one that is missing is skipped here, and fails where CI is set."""
    found = find()
    if found is None or not Path(found).exists():
        lacking(f"{what} is not installed: `make servers` as root, or install the Debian package {package}")
    return Path(found)


def lacking(reason: str) -> NoReturn:
    """Skips the test for what this machine lacks, and fails it where CI is set."""
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
