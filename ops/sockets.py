"""Who listens where on this machine."""

from __future__ import annotations

import socket
from pathlib import Path

from schemas.errors import Unavailable


def pongs(path: Path) -> bool:
    """Whether a Redis-protocol server behind this socket has its data in memory and takes commands."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(1.0)
        try:
            link.connect(str(path))
            link.sendall(b"PING\r\n")
            return link.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(host: str, port: int) -> bool:
    """Whether a server there takes connections."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


def require_free_port(host: str, port: int, setting: str) -> None:
    """Raises Unavailable, naming the setting, if something listens there already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Unavailable(f"{host}:{port}", error.strerror or "cannot be used", f"Set {setting}") from None
