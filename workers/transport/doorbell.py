"""Waiting on Redis without asking again and again, and without taking anything.

The server tracks the keys that a connection has read and says once when one of them changes (client-side caching,
Redis 6 and Valkey). So we ask which lists exist, and are told when that is no longer the whole truth. A blocking
pop would take a message before any lease is recorded; a blocking move writes, and is refused by a server that is full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis import ConnectionPool

from workers.ports import Loop


class Doorbell:
    """Rings once, on the loop's thread, when one of the lists may have become non-empty.

    Args:
        pool: gives a connection of its own, which is kept. Raises redis errors like any client.
    """

    def __init__(self, pool: ConnectionPool, lists: Sequence[str], loop: Loop) -> None:
        self._lists = list(lists)
        self._loop = loop
        self._ring: Callable[[], None] | None = None
        self._line: Any = pool.make_connection()
        self._line.connect()
        self._line.send_command("CLIENT", "TRACKING", "ON")
        self._line.read_response()
        self._socket = self._line._sock.fileno()
        loop.add_reader(self._socket, self._on_readable)

    def arm(self, ring: Callable[[], None]) -> None:
        """Rings once from now on; soon, if a list is non-empty already."""
        self._ring = None
        while self._lists:
            if self._any_exists():
                self._loop.call_soon(ring)
                return
            # A push that came in one piece with the reply is read by now: the socket would never be readable for it.
            if not self._line.can_read(timeout=0):
                break
            self._line.read_response(push_request=True)
        self._ring = ring

    def close(self) -> None:
        """Rings no more."""
        self._ring = None
        self._loop.remove_reader(self._socket)
        self._line.disconnect()

    def _any_exists(self) -> bool:
        self._line.send_command("EXISTS", *self._lists)
        return bool(self._line.read_response())

    def _on_readable(self) -> None:
        # What the server pushed is not looked at: any change may mean work, and arming again finds out.
        while self._line.can_read(timeout=0):
            self._line.read_response(push_request=True)
        ring, self._ring = self._ring, None
        if ring is not None:
            ring()
