"""RabbitMQ of our own, with an Erlang port mapper of its own beside it."""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tests.ground.ports import accepts, free_port
from tests.ground.process import Process
from tests.ground.server import Server, binary
from tests.ground.waiting import wait_until

_CONFIGURATION = """\
listeners.tcp.1 = 127.0.0.1:{port}
management.tcp.ip = 127.0.0.1
management.tcp.port = {management_port}
log.console = true
log.console.level = warning
log.file = false
disk_free_limit.absolute = 50MB
"""


class RabbitServer(Server):
    """One node. Takes about ten seconds to start: share it, one virtual host a test.

    Attributes:
        management_url: its HTTP API, user and password included.
    """

    name = "rabbitmq"
    start_within_s = 120.0

    def __init__(self, program: Path, directory: Path) -> None:
        super().__init__(directory, free_port())
        self.program = program
        self.epmd_port, self.node_port, self.management_port = free_port(), free_port(), free_port()
        self.url = self.vhost_url("/")
        self.management_url = f"http://guest:guest@127.0.0.1:{self.management_port}"
        self._epmd: Process | None = None
        configuration = _CONFIGURATION.format(port=self.port, management_port=self.management_port)
        (directory / "rabbitmq.conf").write_text(configuration)
        (directory / "enabled_plugins").write_text("[rabbitmq_management].\n")

    def vhost_url(self, name: str) -> str:
        """The URL of one of its virtual hosts."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/{quote(name, safe='')}"

    def start(self) -> None:
        if self._epmd is None:
            command = ["epmd", "-port", str(self.epmd_port), "-address", "127.0.0.1"]
            self._epmd = Process(command, log=self.directory / "epmd.log", env=self.environment())
            wait_until(lambda: accepts(self.epmd_port))
        super().start()

    def close(self) -> None:
        super().close()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd = None

    def command(self) -> list[str | Path]:
        return [self.program]

    def environment(self) -> Mapping[str, str]:
        place = self.directory
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(place),
            "HOSTNAME": "localhost",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"t{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.node_port),
            "RABBITMQ_MNESIA_BASE": str(place / "mnesia"),
            "RABBITMQ_LOG_BASE": str(place / "log"),
            "RABBITMQ_PID_FILE": str(place / "pid"),
            "RABBITMQ_CONFIG_FILE": str(place / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(place / "no-rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none",
            # The start script then becomes the server, so that the pid we signal is the server's.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def ready(self) -> bool:
        if not (accepts(self.port) and accepts(self.management_port)):
            return False
        try:
            self.api("GET", "/api/overview")
        except (urllib.error.URLError, OSError):
            return False
        return True

    def api(self, method: str, path: str) -> object:
        """One call of the management API; its JSON, or None where there is none."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.management_port}{path}", method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=20) as response:
            content = response.read()
        return json.loads(content) if content else None

    def add_vhost(self, name: str) -> VirtualHost:
        """An empty virtual host, open to everyone who is let in."""
        self.api("PUT", f"/api/vhosts/{quote(name, safe='')}")
        return VirtualHost(name=name, url=self.vhost_url(name), server=self)


@dataclass(frozen=True)
class VirtualHost:
    """A broker of its own for one test, on the test worker's server: what ends the server ends only this test's."""

    name: str
    url: str
    server: RabbitServer

    @property
    def pid(self) -> int:
        """Of the server."""
        return self.server.pid

    @property
    def alive(self) -> bool:
        """The server runs."""
        return self.server.alive

    def start(self) -> None:
        """The server again, with what it had kept."""
        self.server.start()

    def stop(self) -> None:
        """Ends the server in good order."""
        self.server.stop()

    def kill(self) -> None:
        """SIGKILL to the server."""
        self.server.kill()

    def pause(self) -> None:
        """SIGSTOP to the server."""
        self.server.pause()

    def resume(self) -> None:
        """SIGCONT to the server."""
        self.server.resume()

    def remove(self) -> None:
        """Removes it with its queues and connections; the server is brought back first if the test left it down."""
        self.server.bring_back()
        self.server.api("DELETE", f"/api/vhosts/{quote(self.name, safe='')}")


def rabbitmq_program() -> Path:
    """Debian's own script: the wrapper on the path insists on the user rabbitmq."""
    return binary(lambda: "/usr/lib/rabbitmq/bin/rabbitmq-server", "RabbitMQ", "rabbitmq-server")
