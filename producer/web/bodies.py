"""Request bodies: read within their limits, so that no sender can fill our memory or hold a connection for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from producer.web.replies import Problem

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

READ_WITHIN_S = 60.0
"""How long a sender may take over one body."""


async def read_body(scope: MutableMapping[str, Any], receive: Receive, most_bytes: int) -> bytes:
    """The whole body.

    Raises:
        Problem: 411 if nothing says that there is one, 413 over the limit (found while it comes in, whatever its
            headers claim), 408 if it does not end, 400 if the sender left.
    """
    headers = dict(scope["headers"])
    length = headers.get(b"content-length")
    if length is None and b"transfer-encoding" not in headers and scope["http_version"] < "2":
        raise Problem(411, "body", "is missing; send it with a Content-Length or chunked")
    if length is not None and length.isdigit() and int(length) > most_bytes:
        raise _too_large(most_bytes)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "body", "ended before it was whole")
                chunk: bytes = message.get("body", b"")
                size += len(chunk)
                if size > most_bytes:
                    raise _too_large(most_bytes)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        raise Problem(408, "body", f"did not end within {READ_WITHIN_S:g} s") from None


def _too_large(most_bytes: int) -> Problem:
    return Problem(413, "body", f"is over {most_bytes} bytes, the most that one request may send")
