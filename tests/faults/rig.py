"""A worker under test between a real broker and a real ledger."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml
from celery import Celery
from kombu import Connection
from redis import Redis
from sqlalchemy.engine import Engine

from producer.adapters.brokers import open_broker
from schemas.envelope import Stub
from schemas.keys import LEASED
from schemas.ledger import reading
from schemas.queues import PRIORITY_QUEUES, QUEUES
from schemas.tables import answers, tickets
from schemas.ticket import Priority
from tests.contract.tickets import put, states
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.waiting import wait_until

StartProcess = Callable[..., Process]

_workers = itertools.count(1)


class Rig:
    """Puts tickets in, starts workers, and counts what came out.

    Attributes:
        engine: the ledger.
        seen: ``(ticket id, body)`` of each ticket that entered a slot, in order (gated workers only).
    """

    def __init__(self, broker_url: str, ledger: TestLedger, process: StartProcess, directory: Path) -> None:
        self.broker_url = broker_url
        self.ledger = ledger
        self.engine: Engine = ledger.engine
        self._process = process
        self._directory = directory
        os.mkfifo(directory / "gate")
        (directory / "seen").touch()
        self._gate = os.open(directory / "gate", os.O_RDWR)

    def close(self) -> None:
        """Lets go of the gate."""
        os.close(self._gate)

    def worker(self, *arguments: str, app: str = "tests.faults.gated_app", **settings: object) -> Process:
        """``celery -A ... worker`` with these settings, for instance ``worker_lease="2s"``."""
        env = {
            "TICKETMILL_BROKER_URL": self.broker_url,
            "TICKETMILL_LEDGER_URL": self.ledger.url,
            "TICKETMILL_WORKER_ENGINE": "noop",
            "GATE_DIRECTORY": str(self._directory),
        }
        env |= {f"TICKETMILL_{name.upper()}": str(value) for name, value in settings.items()}
        # A name each: RabbitMQ refuses a second worker of one name while the first one's connection lives, and a frozen
        # worker's does.
        alone = ("--without-mingle", "--without-gossip", "-n", f"worker-{next(_workers)}@%h")
        return self._process("celery", "-A", app, "worker", "-l", "INFO", *alone, *arguments, env=env)

    def config(self, **settings: Any) -> Path:
        """A settings file, for a worker's ``config``."""
        file = self._directory / "ticketmill.yaml"
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        return file

    def send(self, count: int = 1, **fields: Any) -> list[Stub]:
        """Queued tickets, in the ledger and on the broker."""
        stubs = put(self.engine, count, **fields)
        self.publish(stubs)
        return stubs

    def publish(self, stubs: Sequence[Stub]) -> None:
        """Their messages, confirmed."""
        with closing(open_broker(self.broker_url)) as broker:
            for first in range(0, len(stubs), 500):
                broker.publish(stubs[first : first + 500])

    def let_go(self, count: int = 1) -> None:
        """Ends so many waiting tickets."""
        os.write(self._gate, b"." * count)

    @property
    def seen(self) -> list[tuple[str, str]]:
        lines = (self._directory / "seen").read_text(encoding="utf-8").splitlines()
        return [(ticket_id, body) for ticket_id, _, body in (line.partition(" ") for line in lines)]

    def states(self) -> dict[str, int]:
        """How many tickets are in each state."""
        return states(self.engine)

    def until(self, expected: dict[str, int], seconds: float = 30.0) -> None:
        """Waits until the states are these."""
        wait_until(lambda: self.states() == expected, seconds, why=lambda: str(self.states()))

    def until_seen(self, count: int, seconds: float = 30.0) -> None:
        """Waits until so many tickets have entered a slot."""
        wait_until(lambda: len(self.seen) >= count, seconds, why=lambda: str(self.seen[-5:]))

    def answers(self) -> int:
        """Answer rows."""
        with reading(self.engine) as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(answers)).scalar_one()

    def reasons(self) -> dict[str, str]:
        """Each ticket's reason, by its id."""
        with reading(self.engine) as connection:
            return dict(connection.execute(sa.select(tickets.c.id, tickets.c.reason)).all())

    def messages_left(self) -> int:
        """Messages on the broker, queued or out."""
        if self.broker_url.startswith("redis"):
            with Redis.from_url(self.broker_url) as client:
                return int(client.hlen(LEASED)) + sum(int(client.llen(queue)) for queue in QUEUES)
        with Connection(self.broker_url) as connection, connection.channel() as channel:
            return sum(channel.queue_declare(queue, passive=True).message_count for queue in QUEUES)

    def waiting_on(self, priority: Priority) -> int:
        """Messages of one priority that nobody has taken."""
        queue = PRIORITY_QUEUES[priority]
        if self.broker_url.startswith("redis"):
            with Redis.from_url(self.broker_url) as client:
                return int(client.llen(queue))
        with Connection(self.broker_url) as connection, connection.channel() as channel:
            return channel.queue_declare(queue, passive=True).message_count

    def celery(self, **conf: Any) -> Celery:
        """A stock Celery program on the same broker."""
        app = Celery(broker=self.broker_url, set_as_current=False)
        app.conf.update(conf)
        return app
