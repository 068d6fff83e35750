"""Private brokers for a benchmark: on a free port of this machine, in a temporary folder, gone when it ends."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ops.bench.report import BenchFailed
from ops.component import Component
from ops.sockets import accepts, free_port

RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
"""Debian's own script; the one on the path insists on a user of its own."""

POLICY = '{"queue-mode": "lazy", "queue-version": 2}'
"""Queues as RabbitMQ 4 makes them by itself and 3.x makes them when told so: written straight to disk, which costs the
broker less than half. All queues of a benchmark get them, Celery's too.
"""

HOST = "127.0.0.1"
READY_S = 60.0


def redis_program() -> str | None:
    """Redis or Valkey on the path."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


def rabbitmq_program() -> str | None:
    """RabbitMQ's start script."""
    return RABBITMQ if os.access(RABBITMQ, os.X_OK) else shutil.which("rabbitmq-server")


@contextmanager
def redis_server(program: str) -> Generator[str]:
    """A Redis with its append-only file on; gives its URL."""
    with TemporaryDirectory(prefix="ticketmill-bench-") as folder:
        port = free_port()
        command = [program, "--bind", HOST, "--port", str(port), "--dir", folder, "--save", ""]
        # A listener that falls behind must not be cut off: a lost event would fail the run.
        command += ["--appendonly", "yes", "--client-output-buffer-limit", "pubsub 0 0 0"]
        with running("redis", command, os.environ, lambda: accepts(HOST, port)):
            yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def rabbitmq_server(program: str) -> Generator[str]:
    """A RabbitMQ node with its own port mapper; gives its URL."""
    with TemporaryDirectory(prefix="ticketmill-bench-") as folder:
        place = Path(folder)
        ports = {name: free_port() for name in ("amqp", "node", "epmd")}
        environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": folder,
            "HOSTNAME": "localhost",
            "ERL_EPMD_PORT": str(ports["epmd"]),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{ports['amqp']}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(ports["amqp"]),
            "RABBITMQ_DIST_PORT": str(ports["node"]),
            "RABBITMQ_MNESIA_BASE": str(place / "mnesia"),
            "RABBITMQ_LOG_BASE": str(place / "log"),
            "RABBITMQ_PID_FILE": str(place / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        epmd = [shutil.which("epmd") or "epmd", "-port", str(ports["epmd"]), "-address", HOST]
        with (
            running("epmd", epmd, environment, lambda: accepts(HOST, ports["epmd"])),
            running("rabbitmq", [program], environment, lambda: speaks_amqp(ports["amqp"])),
        ):
            control = [str(Path(program).with_name("rabbitmqctl")), "--node", environment["RABBITMQ_NODENAME"]]
            set_policy = [*control, "set_policy", "bench", ".*", POLICY, "--apply-to", "queues"]
            told = subprocess.run(set_policy, env=environment, capture_output=True, text=True, check=False)
            if told.returncode:
                raise BenchFailed(f"rabbitmqctl set_policy: {' '.join(told.stderr.split())}")
            yield f"amqp://guest:guest@127.0.0.1:{ports['amqp']}//"


@contextmanager
def running(
    name: str, command: list[str], environment: Mapping[str, str], ready: Callable[[], bool]
) -> Generator[None]:
    lines: list[str] = []
    server = Component(name, command, environment, lambda _, line: lines.append(line))
    try:
        deadline = time.monotonic() + READY_S
        while not ready():
            if server.exit_code is not None or time.monotonic() > deadline:
                raise BenchFailed(f"{name} did not start: {' / '.join(lines[-3:])}")
            time.sleep(0.05)
        yield
    finally:
        server.tell_to_stop(20.0)
        server.wait()


def speaks_amqp(port: int) -> bool:
    """A broker answers there: RabbitMQ accepts connections some time before it serves them."""
    with socket.socket() as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(("127.0.0.1", port))
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            return probe.recv(1) == b"\x01"
        except OSError:
            return False
