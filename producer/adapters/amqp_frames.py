"""AMQP 0-9-1 publish frames, built by hand and sent many at a time: py-amqp spends most of its time on this.

Only what a ticket's message needs: short bodies, and headers of text, numbers, flags, nothing, lists and tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any

from schemas.envelope import Envelope


def publish_frames(channel: int, sealed: Envelope) -> bytes:
    """The frames that publish one message to its queue, to be returned to us if there is no such queue.

    A ticket's message names its ticket and stays under 4,096 bytes, which every AMQP peer takes in one frame.
    """
    queue = sealed.queue.encode()
    method = _PUBLISH + bytes((len(queue),)) + queue + _MANDATORY
    header = _HEADER.pack(60, 0, len(sealed.body), _FLAGS) + _properties(sealed)
    return (
        _FRAME.pack(1, channel, len(method))
        + method
        + _END
        + _FRAME.pack(2, channel, len(header))
        + header
        + _END
        + _FRAME.pack(3, channel, len(sealed.body))
        + sealed.body
        + _END
    )


_FRAME = Struct(">BHI")
_HEADER = Struct(">HHQH")
_LONG = Struct(">I")
_INTEGER = Struct(">cq")
_END = b"\xce"
_PUBLISH = b"\x00\x3c\x00\x28" + b"\x00\x00" + b"\x00"
_MANDATORY = b"\x01"
# content-type, content-encoding, headers, delivery-mode, priority, correlation-id, reply-to
_FLAGS = 0b1111_1110_0000_0000


def _properties(sealed: Envelope) -> bytes:
    properties = sealed.properties
    return b"".join(
        (
            _short("application/json"),
            _short("utf-8"),
            _table(sealed.headers),
            bytes((properties["delivery_mode"], properties["priority"])),
            _short(properties["correlation_id"]),
            _short(properties["reply_to"]),
        )
    )


def _short(text: str) -> bytes:
    encoded = text.encode()
    return bytes((len(encoded),)) + encoded


def _long(content: bytes) -> bytes:
    return _LONG.pack(len(content)) + content


def _table(fields: Mapping[str, Any]) -> bytes:
    return _long(b"".join([_short(name) + _value(value) for name, value in fields.items()]))


def _value(value: Any) -> bytes:
    match value:
        case str():
            return b"S" + _long(value.encode())
        case bool():
            return b"t\x01" if value else b"t\x00"
        case int():
            return _INTEGER.pack(b"l", value)
        case None:
            return b"V"
        case list():
            return b"A" + _long(b"".join([_value(each) for each in value]))
        case _:
            return b"F" + _table(value)
