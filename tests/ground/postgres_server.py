"""PostgreSQL of our own: one cluster a test worker, one database a test."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.ground.ports import accepts, free_port
from tests.ground.server import Server, binary


class PostgresServer(Server):
    """A cluster. As root it runs as the user ``postgres``, for it refuses to be root."""

    name = "postgresql"

    def __init__(self, program: Path) -> None:
        # pytest's own temporary directories are closed to other users.
        super().__init__(Path(tempfile.mkdtemp(prefix="ticketmill-postgresql-")), free_port())
        self.program = program
        self.user = "postgres" if os.geteuid() == 0 else ""
        self.owner = self.user or pwd.getpwuid(os.geteuid()).pw_name
        self.url = self.database_url("postgres")
        self._lay()

    def database_url(self, name: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://{self.owner}@127.0.0.1:{self.port}/{name}"

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.directory)

    def run(self, statement: str) -> None:
        """One statement outside any transaction (``CREATE DATABASE``)."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def command(self) -> list[str | Path]:
        # What survives SIGKILL is in the system's page cache already; syncing would only show a power cut.
        quick = ["-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=64MB"]
        place = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}", "-c", "unix_socket_directories="]
        return [self.program, "-D", self.directory / "data", *place, *quick]

    def ready(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            with psycopg.connect(self.url, connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def _lay(self) -> None:
        if self.user:
            shutil.chown(self.directory, self.user, self.user)
        command = [self.program.with_name("initdb"), "-D", self.directory / "data", "-A", "trust"]
        command += ["-U", self.owner, "--no-sync", "-E", "UTF8", "--no-locale"]
        if self.user:
            command = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--init-groups", "--", *command]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"initdb failed:\n{done.stdout}{done.stderr}"


def postgres_program() -> Path:
    """The newest ``postgres`` of Debian's, or one on the path."""

    def find() -> Path | str | None:
        installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
        return installed[-1] if installed else shutil.which("postgres")

    return binary(find, "PostgreSQL", "postgresql")
