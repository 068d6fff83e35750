"""Ports for servers that a test kills and starts again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

HIGHEST = 60_999


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, outside the range that outgoing connections take theirs from.

    While a server is down, a client that keeps trying could otherwise be given the server's own port as its own,
    and either talk to itself or stop the server from coming back.
    """
    chance = random.SystemRandom()
    lowest_outgoing = _lowest_outgoing()
    for _ in range(200):
        port = chance.randrange(10_000, lowest_outgoing)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port found on 127.0.0.1")


def _lowest_outgoing() -> int:
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768
    return lowest if lowest > 12_000 else HIGHEST


def accepts(port: int) -> bool:
    """Somebody listens there."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
