"""Leases on Redis: one script that takes, renews, ends and restores them, for every client that wants batches."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from redis import ConnectionPool
from redis.exceptions import NoScriptError

from schemas.keys import LEASED, LEASES

_SCRIPT = files("workers.transport").joinpath("leases.lua").read_text(encoding="utf-8")
_HASH = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_RESTORED_A_CALL = 500


class Leased(NamedTuple):
    """A message that is ours until its lease runs out.

    Attributes:
        token: names this lease, and no later one of the same message.
        list: the key of the Redis list it came from.
        message: as it lay there.
    """

    token: str
    list: str
    message: bytes


class Leases:
    """Messages of kombu's lists taken under a lease. Every method is one call of one script.

    Args:
        pool: gives a connection of its own, which is kept. A redis-py client on top of it would cost as much again as
            the calls themselves.
        prefix: kombu's ``global_keyprefix``; it stands before the names of our own keys, and must already stand
            before those of the lists.
        lease_s: how long a lease lasts by the server's own clock, in seconds.
    """

    def __init__(self, pool: ConnectionPool, prefix: str, lease_s: float) -> None:
        self._line: Any = pool.make_connection()
        self._keys = [prefix + LEASES, prefix + LEASED]
        self._lease_s = lease_s
        self._name = secrets.token_hex(6)
        self._calls = 0

    def reserve(self, lists: Sequence[str], most: int) -> list[Leased]:
        """Up to ``most`` messages from the right end of these lists, the first list's first."""
        self._calls += 1
        stem = f"{self._name}.{self._calls}."
        counts, lengths, messages = self._call(lists, "reserve", self._lease_s, most, stem)
        if not messages:
            return []
        origins = (name for name, count in zip(lists, counts.split(b","), strict=True) for _ in range(int(count)))
        return [
            Leased(f"{stem}{number:05d}", origin, message)
            for number, (origin, message) in enumerate(zip(origins, _cut(messages, lengths), strict=True), start=1)
        ]

    def ack(self, tokens: Sequence[str]) -> int:
        """Ends leases and removes the messages; returns how many leases were still held."""
        return self._call([], "ack", *tokens)

    def release(self, tokens: Sequence[str]) -> int:
        """Ends leases and puts the messages back to the front, those reserved first foremost."""
        return self._call([], "release", *tokens)

    def move(self, tokens: Sequence[str], to_list: str) -> int:
        """Ends leases and puts the messages at the end of another list."""
        return self._call([to_list], "move", *tokens)

    def renew(self, tokens: Sequence[str]) -> list[int]:
        """Makes leases last a full period from now; returns the positions of those that were lost."""
        return self._call([], "renew", self._lease_s, *tokens)

    def restore(self) -> int:
        """Puts back, to the front and marked as redelivered, what leases have run out on; returns how many."""
        restored = last = self._call([], "restore", _RESTORED_A_CALL)
        while last == _RESTORED_A_CALL:
            last = self._call([], "restore", _RESTORED_A_CALL)
            restored += last
        return restored

    def close(self) -> None:
        """Ends the connection; leases outlive it."""
        self._line.disconnect()

    def _call(self, lists: Sequence[str], *arguments: str | float) -> Any:
        # The script is sent once and then named by its hash, also to a server that has forgotten it.
        call = ("EVALSHA", _HASH, len(self._keys) + len(lists), *self._keys, *lists, *arguments)
        try:
            return self._ask(*call)
        except NoScriptError:
            self._ask("SCRIPT", "LOAD", _SCRIPT)
            return self._ask(*call)

    def _ask(self, *command: str | float) -> Any:
        self._line.send_command(*command)
        return self._line.read_response()


def _cut(text: bytes, lengths: bytes) -> Iterator[bytes]:
    at = 0
    for length in lengths.split(b","):
        end = at + int(length)
        yield text[at:end]
        at = end
