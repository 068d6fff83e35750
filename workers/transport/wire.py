"""An AMQP connection read in large pieces, and deliveries taken off it without being decoded.

py-amqp asks the system several times for each of a message's three frames, and decodes every header of it; both cost
more than all else that a worker does with a message. All but deliveries on our own channels is left to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from ssl import SSLError
from struct import Struct
from typing import Any

import amqp
import msgspec

from schemas.envelope import Label, Stub, label_of_headers
from workers.ports import Loop

PIECE_BYTES = 65_536

_FRAME = Struct(">BHI")
_SIZE = Struct(">Q")
_TAG = Struct(">QB")
_DELIVER = b"\x00\x3c\x00\x3c"
_END = 0xCE
_METHOD, _HEADER, _BODY = 1, 2, 3
_SIZE_AT = 4
"""Where the body's size is in a header frame, behind class and weight."""

_ID = b"\x02idS\x00\x00\x00\x24"
"""How the header ``id`` begins where it is a UUID; 36 characters follow."""
_ID_BYTES = 36
_BLANK = "0" * _ID_BYTES

_Message: Any = amqp.Message
"""Whose types say that a body is text; it may be bytes."""


class Parcel(msgspec.Struct, eq=False, gc=False):
    """A delivery as it came: ``header`` is its content header frame, decoded by ``label_of`` or ``message_of``."""

    tag: int
    redelivered: bool
    header: bytes = b""
    body: bytes = b""
    missing: int = 0


class Wire:
    """Reads one py-amqp connection from now on.

    Args:
        connection: open. Its ``drain_events`` goes on working, for whoever calls it.
        loop: told when frames are here that it cannot see coming.
    """

    def __init__(self, connection: Any, loop: Loop) -> None:
        self._connection = connection
        self._loop = loop
        self._left = False
        self._data: bytes = connection.transport._read_buffer
        self._at = 0
        self._receivers: dict[int, Callable[[Parcel], None]] = {}
        self._coming: dict[int, Parcel] = {}
        self._decode: Callable[[Any], object] = connection.on_inbound_frame
        connection.blocking_read = self._read

    def hear(self, channel_id: int, receive: Callable[[Parcel], None]) -> None:
        """Gives every delivery on that channel to ``receive``."""
        self._receivers[channel_id] = receive

    def read(self) -> None:
        """Takes in all that is there, without waiting. Raises what py-amqp raises when the connection is gone."""
        with self._connection.transport.having_timeout(0) as socket:
            while True:
                self._take_all()
                try:
                    self._more(socket)
                except BlockingIOError:
                    return
                except SSLError as error:
                    if "did not complete" in str(error):
                        return
                    raise

    def _read(self, timeout: float | None = None) -> object:
        # Stands in for the connection's method of that name: one frame; whether a whole method came with it.
        frame = self._next()
        if frame is None:
            with self._connection.transport.having_timeout(timeout) as socket:
                while frame is None:
                    self._more(socket)
                    frame = self._next()
            if self._at < len(self._data) and not self._left:
                # Whoever waits for one frame leaves those behind it, of which the socket says nothing any more.
                self._left = True
                self._loop.call_soon(self._take_left)
        return self._take(frame)

    def _take_left(self) -> None:
        self._left = False
        self._take_all()

    def _take_all(self) -> None:
        while (frame := self._next()) is not None:
            self._take(frame)

    def _more(self, socket: Any) -> None:
        piece = socket.recv(PIECE_BYTES)
        if not piece:
            self._connection.transport.connected = False
            raise OSError("the broker closed the connection")
        self._data = self._data[self._at :] + piece
        self._at = 0

    def _next(self) -> tuple[int, int, bytes] | None:
        data, start = self._data, self._at + _FRAME.size
        if len(data) < start:
            return None
        kind, channel, size = _FRAME.unpack_from(data, self._at)
        end = start + size
        if len(data) <= end:
            return None
        if data[end] != _END:
            raise amqp.exceptions.UnexpectedFrame(f"a frame ends with {data[end]:#x}")
        self._at = end + 1
        return kind, channel, data[start:end]

    def _take(self, frame: tuple[int, int, bytes]) -> object:
        kind, channel, payload = frame
        receive = self._receivers.get(channel)
        if receive is None or (kind == _METHOD and payload[:4] != _DELIVER) or kind > _BODY:
            return self._decode(frame)
        self._connection.bytes_recv += 1  # counts frames; what the heartbeat looks at
        if kind == _METHOD:
            tag, redelivered = _TAG.unpack_from(payload, 5 + payload[4])
            self._coming[channel] = Parcel(tag, bool(redelivered))
            return False
        parcel = self._coming[channel]
        if kind == _HEADER:
            parcel.header = payload
            (parcel.missing,) = _SIZE.unpack_from(payload, _SIZE_AT)
        else:
            parcel.body += payload
            parcel.missing -= len(payload)
        if parcel.missing > 0:
            return False
        receive(self._coming.pop(channel))
        return True


def message_of(parcel: Parcel) -> Any:
    """The whole of it as py-amqp has it: an ``amqp.Message`` with its properties."""
    message: Any = _Message(parcel.body)
    message.inbound_header(parcel.header)
    return message


def label_of(parcel: Parcel) -> Label:
    """What its headers say. Headers that differ in nothing but the ticket's id are decoded once."""
    header = parcel.header
    start = header.find(_ID) + len(_ID)
    ticket_id = header[start : start + _ID_BYTES]
    if start < len(_ID) or len(ticket_id) < _ID_BYTES:
        return _decoded(header)
    blank = _blank_label(header.replace(ticket_id, _BLANK.encode()))
    if blank.stub is None or blank.stub.id != _BLANK or _BLANK in _others(blank.stub):
        return _decoded(header)
    try:
        stub = msgspec.structs.replace(blank.stub, id=ticket_id.decode())
    except UnicodeError:
        return _decoded(header)
    return Label(stub, redelivered=blank.redelivered)


@lru_cache(maxsize=1024)
def _blank_label(header: bytes) -> Label:
    return _decoded(header)


def _decoded(header: bytes) -> Label:
    return label_of_headers(message_of(Parcel(0, False, header)).properties.get("application_headers") or {})


def _others(stub: Stub) -> str:
    return "\n".join((stub.tenant, stub.job, stub.conversation))
