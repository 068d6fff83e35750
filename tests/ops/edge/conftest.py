"""Fixtures: a server, a crowd and an attacker, each in a network namespace of its own."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.ground.process import Process
from tests.ground.waiting import wait_until
from tests.ops.edge.namespaces import Namespace, require

PORT = 8040

ANSWERING = """
import socket, sys
with socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, backlog=4096, dualstack_ipv6=True) as door:
    print("ready", flush=True)
    while True:
        connection, _ = door.accept()
        with connection:
            try:
                connection.settimeout(5)
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
            except OSError:
                pass
"""

ADMIN_RULES = """
table inet admin {
	set arrived_v4 { type ipv4_addr; size 1024; flags dynamic; }
	set arrived_v6 { type ipv6_addr; size 1024; flags dynamic; }
	set arrived_networks { type ipv6_addr; size 1024; flags dynamic; }
	chain input {
		type filter hook input priority filter; policy accept;
		tcp dport 8040 tcp flags & (syn | ack) == syn jump counted
		# Nobody answers packets from addresses that are made up: each would be looked for on the cable.
		ip6 saddr 2001:db8:a:1::/64 drop
	}
	chain counted {
		update @arrived_networks { ip6 saddr & ffff:ffff:ffff:ffff:: counter }
		ip6 saddr 2001:db8:a:1::/64 return
		update @arrived_v4 { ip saddr counter }
		update @arrived_v6 { ip6 saddr counter }
	}
}
"""
"""Rules of the machine's administrator, who counts what the edge lets through."""


class Ground:
    """A server with two cables: on one an attacker and his honest neighbour, on the other the rest of the world.

    Attributes:
        target_v4, target_v6: the server's addresses, on the cable of that namespace's name.
    """

    attacker_v4, neighbour_v4, busy_v4 = "198.51.100.66", "198.51.100.67", "203.0.113.10"
    attacker_v6, neighbour_v6, busy_v6 = "2001:db8:a::66", "2001:db8:a::67", "2001:db8:b::10"
    made_up_v6 = "2001:db8:a:1::/64"

    def __init__(self, folder: Path) -> None:
        self.server = Namespace("server", folder)
        self.attacker = Namespace("attacker", folder)
        self.world = Namespace("world", folder)
        self.server.join(
            self.attacker,
            ["198.51.100.1/24", "2001:db8:a::1/64"],
            ["198.51.100.66/24", "198.51.100.67/24", "2001:db8:a::66/64", "2001:db8:a::67/64"],
        )
        self.server.join(self.world, ["203.0.113.1/24", "2001:db8:b::1/64"], ["203.0.113.10/24", "2001:db8:b::10/64"])
        self.server.run("nft", "-f", "-", stdin=ADMIN_RULES)

    def where(self, source: str) -> tuple[Namespace, str]:
        """The namespace that holds an address, and the server's address on its cable."""
        if source.startswith(("198.51.100.", "2001:db8:a:")):
            return self.attacker, "2001:db8:a::1" if ":" in source else "198.51.100.1"
        return self.world, "2001:db8:b::1" if ":" in source else "203.0.113.1"

    def syns(self, source: str, count: int, rate: float) -> Process:
        """Starts sending bare SYNs from there."""
        namespace, target = self.where(source)
        return namespace.python(
            "tests.ops.edge.syns",
            "--device", "server", "--to", self.server.mac(namespace.name), "--source", source, "--target", target,
            "--port", str(PORT), "--count", str(count), "--rate", str(rate),
        )  # fmt: skip

    def connections(self, source: str, count: int, *, port: int = PORT, pause_s: float = 0.0) -> Process:
        """Starts opening connections from there, one after another."""
        namespace, target = self.where(source)
        return namespace.python(
            "tests.ops.edge.connections", "--source", source, "--target", target, "--port", str(port),
            "--count", str(count), "--pause", str(pause_s),
        )  # fmt: skip

    def reaches(self, source: str, *, port: int = PORT, patience_s: float = 0.3) -> bool:
        """A connection from there is answered."""
        namespace, target = self.where(source)
        answer = namespace.json(
            sys.executable, "-m", "tests.ops.edge.connections", "--source", source, "--target", target,
            "--port", str(port), "--count", "1", "--patience", str(patience_s),
        )  # fmt: skip
        return answer["served"] == 1

    def arrived(self, source: str) -> int:
        """SYNs from there that the edge has let through so far."""
        name = "arrived_networks" if "/" in source else "arrived_v6" if ":" in source else "arrived_v4"
        answer = self.server.json("nft", "-j", "list", "set", "inet", "admin", name)["nftables"]
        (counted,) = [each["set"] for each in answer if "set" in each]
        counts = {each["elem"]["val"]: each["elem"]["counter"]["packets"] for each in counted.get("elem", [])}
        return counts.get(source.partition("/")[0], 0)

    def begin_anew(self) -> None:
        """No rules of ours, nothing counted, nothing running."""
        for namespace in (self.server, self.attacker, self.world):
            namespace.end()
        self.server.tried("nft", "delete", "table", "inet", "ticketmill_edge")
        self.forget()

    def forget(self) -> None:
        """Nothing has arrived so far."""
        names = ("arrived_v4", "arrived_v6", "arrived_networks")
        self.server.run("nft", "-f", "-", stdin="".join(f"flush set inet admin {name}\n" for name in names))

    def serve(self) -> None:
        """Starts a server that answers on the API's port."""
        server = self.server.start(sys.executable, "-c", ANSWERING, str(PORT))
        wait_until(lambda: "ready" in server.output(), why=server.output)

    def close(self) -> None:
        """All gone."""
        for namespace in (self.attacker, self.world, self.server):
            namespace.close()


@pytest.fixture(scope="session")
def shared_ground(tmp_path_factory: pytest.TempPathFactory) -> Generator[Ground]:
    """Ask for ``ground``."""
    require()
    ground = Ground(tmp_path_factory.mktemp("edge"))
    yield ground
    ground.close()


@pytest.fixture
def ground(shared_ground: Ground) -> Ground:
    """Three namespaces, a server that answers, and no rules but the administrator's."""
    shared_ground.begin_anew()
    shared_ground.serve()
    return shared_ground
