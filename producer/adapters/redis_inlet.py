"""The inlet on Redis: looked at, taken in, and only then cut off the list.

kombu's own consumer pops a message before it records it, and so loses it when killed in between.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from producer.adapters.redis_broker import RedisServer
from producer.ports import RawMessage
from schemas.queues import INLET

LISTS = (INLET, *(f"{INLET}\x06\x16{step}" for step in (3, 6, 9)))
"""kombu keeps one list a priority step; messages without a priority are in the first."""

LOOK_EVERY_S = 0.1
"""How often an empty inlet is looked at: soon enough for a sender, and next to nothing for a server."""


class RedisInlet:
    """See Inlet. For one thread at a time.

    Args:
        pause: sleeps for so many seconds.
    """

    def __init__(self, url: str, pause: Callable[[float], object]) -> None:
        self._server = RedisServer(url)
        self._pause = pause
        self._cut: Any = None

    def receive(self, most: int, wait_s: float) -> list[RawMessage]:
        """See Inlet."""
        while True:
            with self._server.client() as redis:
                pipeline = redis.pipeline(transaction=False)
                for name in LISTS:
                    pipeline.lrange(self._server.key(name), -most, -1)
                found: list[list[bytes]] = pipeline.execute()
            for name, raw in zip(LISTS, found, strict=True):
                if raw:
                    return [_opened(each, (name, raw)) for each in reversed(raw)]
            if wait_s <= 0:
                return []
            self._pause(LOOK_EVERY_S)
            wait_s -= LOOK_EVERY_S

    def done(self, messages: Sequence[RawMessage]) -> None:
        """See Inlet. If another process cut them off meanwhile, the list is left as it is."""
        name, raw = messages[0].token
        digest = hashlib.sha1(b"\0".join(raw), usedforsecurity=False).hexdigest()
        with self._server.client() as redis:
            redis.eval(_CUT, 1, self._server.key(name), len(raw), digest)

    def close(self) -> None:
        """See Inlet."""
        self._server.close()


_CUT = """
local count = tonumber(ARGV[1])
local tail = redis.call('LRANGE', KEYS[1], -count, -1)
if redis.sha1hex(table.concat(tail, '\\0')) ~= ARGV[2] then return 0 end
redis.call('LTRIM', KEYS[1], 0, -(count + 1))
return count
"""


class _Properties(msgspec.Struct):
    body_encoding: str = ""


class _Message(msgspec.Struct, rename={"content_type": "content-type", "content_encoding": "content-encoding"}):
    body: str
    headers: dict[str, Any]
    properties: _Properties
    content_type: str | None = ""
    content_encoding: str | None = ""


_decoder = msgspec.json.Decoder(_Message)


def _opened(raw: bytes, token: object) -> RawMessage:
    try:
        message = _decoder.decode(raw)
        encoded = message.body.encode()
        body = base64.b64decode(encoded, validate=True) if message.properties.body_encoding == "base64" else encoded
    except (msgspec.DecodeError, UnicodeError, binascii.Error, RecursionError):
        return RawMessage(headers=None, body=raw, token=token)
    return RawMessage(
        headers=message.headers,
        body=body,
        content_type=message.content_type or "",
        content_encoding=message.content_encoding or "",
        compression=str(message.headers.get("compression") or ""),
        token=token,
    )
