"""The Celery message (protocol 2) that carries an admitted ticket, and back.

The message names the ticket; its text stays in the ledger. So a broker's memory is bounded by the number of tickets
rather than their size, and no customer's words lie in a queue, a monitor or a dead-letter dump.

Written by hand with msgspec: Celery's own producer builds and deep-copies about forty dictionaries a message.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from schemas.queues import PRIORITY_QUEUES, TASK
from schemas.ticket import Priority

VERSION = 1
"""Grows when a header changes meaning; a worker returns messages of a later version to the queue for a newer one."""

HEADER = "ticketmill"
"""Name of the header that only admitted tickets carry."""


class Stub(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a message says of its ticket: enough to order and share out work before the ledger is asked.

    Attributes:
        delivery: which delivery this is; one that the ledger does not expect any more is stale and dropped.
    """

    id: str
    delivery: int
    priority: Priority
    tenant: str
    job: str
    conversation: str = ""


class Mark(msgspec.Struct, frozen=True):
    """The ``ticketmill`` header."""

    v: int
    delivery: int
    priority: Priority
    tenant: str
    job: str
    conversation: str = ""


class Envelope(msgspec.Struct, frozen=True):
    """One message in parts, as an AMQP client wants them. ``body`` is JSON."""

    body: bytes
    headers: dict[str, Any]
    properties: dict[str, Any]
    queue: str


def envelope(stub: Stub, origin: str = "ticketmill") -> Envelope:
    """The Celery protocol-2 message for an admitted ticket."""
    mark = {
        "v": VERSION,
        "delivery": stub.delivery,
        "priority": stub.priority.value,
        "tenant": stub.tenant,
        "job": stub.job,
        "conversation": stub.conversation,
    }
    headers = {
        "lang": "py",
        "task": TASK,
        "id": stub.id,
        "root_id": stub.id,
        "parent_id": None,
        "group": None,
        "retries": 0,
        "timelimit": [None, None],
        "eta": None,
        "expires": None,
        "argsrepr": f"('{stub.id}',)",
        "kwargsrepr": "{}",
        "origin": origin,
        "ignore_result": False,
        HEADER: mark,
    }
    queue = PRIORITY_QUEUES[stub.priority]
    properties = {"correlation_id": stub.id, "reply_to": "", "delivery_mode": 2, "priority": 0}
    return Envelope(body=_body(stub.id), headers=headers, properties=properties, queue=queue)


def redis_message(sealed: Envelope) -> bytes:
    """The JSON that kombu's Redis transport keeps in a queue's list.

    The delivery tag is the ticket's id and delivery number: unique among live messages, as kombu demands.
    """
    tag = f"{sealed.headers['id']}.{sealed.headers[HEADER]['delivery']}"
    return msgspec.json.encode(
        {
            "body": base64.b64encode(sealed.body).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": sealed.headers,
            "properties": {
                **sealed.properties,
                "body_encoding": "base64",
                "delivery_info": {"exchange": "", "routing_key": sealed.queue},
                "delivery_tag": tag,
            },
        }
    )


class Label(msgspec.Struct, frozen=True):
    """What the headers of any message say, as far as we understand them.

    Attributes:
        stub: the admitted ticket it names; None if it names none, or none that we understand.
        raw: it is our task without the mark of admission: for the inlet.
        newer: it was written by a later version than ours: for a newer worker.
        redelivered: it was handed out before and came back.
    """

    stub: Stub | None = None
    raw: bool = False
    newer: bool = False
    redelivered: bool = False


class _Headers(msgspec.Struct):
    id: str = ""
    task: str = ""
    ticketmill: Mark | None = None
    redelivered: bool = False


class _Version(msgspec.Struct):
    v: int


class _NewerHeaders(msgspec.Struct):
    ticketmill: _Version


class _RedisMessage(msgspec.Struct):
    headers: _Headers


class _NewerRedisMessage(msgspec.Struct):
    headers: _NewerHeaders


_redis_decoder = msgspec.json.Decoder(_RedisMessage)
_newer_redis_decoder = msgspec.json.Decoder(_NewerRedisMessage)


def label_of_redis(message: bytes) -> Label:
    """What a message in a Redis list says of itself; an empty label for what is no Celery message at all."""
    try:
        return _label(_redis_decoder.decode(message).headers)
    except (msgspec.DecodeError, UnicodeError):
        pass
    try:
        later = _newer_redis_decoder.decode(message).headers.ticketmill.v
    except (msgspec.DecodeError, UnicodeError):
        return Label()
    return Label(newer=later > VERSION)


def label_of_headers(headers: object) -> Label:
    """The same for the headers of an AMQP message."""
    try:
        return _label(msgspec.convert(headers, _Headers))
    except msgspec.ValidationError:
        pass
    try:
        later = msgspec.convert(headers, _NewerHeaders).ticketmill.v
    except msgspec.ValidationError:
        return Label()
    return Label(newer=later > VERSION)


def stub_of_redis(message: bytes) -> Stub | None:
    """What an admitted ticket's Redis message says; None for any other message, however malformed."""
    return label_of_redis(message).stub


def stub_of_headers(headers: object) -> Stub | None:
    """The same for the headers of an AMQP message."""
    return label_of_headers(headers).stub


def _label(headers: _Headers) -> Label:
    mark = headers.ticketmill
    if mark is None or not headers.id:
        return Label(raw=headers.task == TASK, redelivered=headers.redelivered)
    if mark.v > VERSION:
        return Label(newer=True)
    stub = Stub(
        id=headers.id,
        delivery=mark.delivery,
        priority=mark.priority,
        tenant=mark.tenant,
        job=mark.job,
        conversation=mark.conversation,
    )
    return Label(stub, redelivered=headers.redelivered)


_BODY_TAIL = b'"],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'


def _body(ticket_id: str) -> bytes:
    return b'[["' + ticket_id.encode() + _BODY_TAIL
