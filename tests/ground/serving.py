"""A running producer: ``python -m producer.serve`` over a ledger and a broker, with a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from producer.adapters.clock import utc_now
from producer.adapters.key_ring import SqlKeyRing
from producer.api_keys import make_key
from schemas.ledger import open_ledger
from tests.ground.ports import free_port
from tests.ground.process import ROOT, Process
from tests.ground.waiting import wait_until


def new_key(ledger_url: str, tenant: str = "acme") -> str:
    """An API key of that tenant."""
    engine = open_ledger(ledger_url)
    try:
        return make_key(SqlKeyRing(engine), tenant, "test", utc_now())[1]
    finally:
        engine.dispose()


@dataclass
class Serving:
    """One serving process, which can be ended and started again on the same port."""

    python: str
    ledger_url: str
    broker_url: str
    place: Path
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    port: int = field(default_factory=free_port)
    process: Process | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Process:
        """Starts it and returns once it answers."""
        process = self.launch()
        wait_until(lambda: self.answers() or not process.alive, 60, why=lambda: process.output(4000))
        assert process.alive, process.output(4000)
        return process

    def launch(self) -> Process:
        """Starts it, whatever becomes of it."""
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.place),
            "TICKETMILL_LEDGER_URL": self.ledger_url,
            "TICKETMILL_BROKER_URL": self.broker_url,
            "TICKETMILL_HTTP_PORT": str(self.port),
            **self.settings,
        }
        command = [self.python, "-m", "producer.serve"]
        self.process = Process(command, log=self.place / f"serve-{self.port}.log", env=environment, cwd=self.place)
        return self.process

    def answers(self) -> bool:
        """It listens and speaks HTTP."""
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def client(self, key: str) -> httpx.Client:
        """A client with that key."""
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)

    def close(self) -> None:
        """Ends it, whatever state it is in."""
        if self.process is not None:
            self.process.kill()
