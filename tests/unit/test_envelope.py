"""An admitted ticket's message says the same on both brokers, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from schemas.envelope import (
    HEADER,
    VERSION,
    Label,
    Stub,
    envelope,
    label_of_headers,
    label_of_redis,
    redis_message,
)
from schemas.queues import PRIORITY_QUEUES, TASK
from schemas.ticket import Priority

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._:-]{0,63}\Z")
STUBS = st.builds(
    Stub,
    id=st.uuids().map(str),
    delivery=st.integers(1, 2**31),
    priority=st.sampled_from(list(Priority)),
    tenant=NAMES,
    job=NAMES,
    conversation=TEXT,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(STUBS)
def test_what_is_sealed_is_read_back_on_redis_and_on_amqp(stub: Stub) -> None:
    sealed = envelope(stub)
    assert label_of_headers(sealed.headers) == Label(stub=stub)
    assert label_of_redis(redis_message(sealed)) == Label(stub=stub)
    assert sealed.queue == PRIORITY_QUEUES[stub.priority]


@given(STUBS)
def test_the_message_is_celerys_second_protocol(stub: Stub) -> None:
    sealed = envelope(stub)
    args, kwargs, embed = json.loads(sealed.body)
    assert (args, kwargs) == ([stub.id], {})
    assert set(embed) == {"callbacks", "errbacks", "chain", "chord"}
    assert (sealed.headers["task"], sealed.headers["id"]) == (TASK, stub.id)
    assert sealed.properties["correlation_id"] == stub.id


@given(STUBS)
def test_a_redis_message_is_as_kombu_writes_it(stub: Stub) -> None:
    message = json.loads(redis_message(envelope(stub)))
    assert base64.b64decode(message["body"]) == envelope(stub).body
    assert message["properties"]["body_encoding"] == "base64"
    assert message["properties"]["delivery_info"]["routing_key"] == PRIORITY_QUEUES[stub.priority]


@given(STUBS, st.integers(1, 2**31))
def test_each_delivery_of_each_ticket_has_a_tag_of_its_own(stub: Stub, other: int) -> None:
    again = Stub(**{name: getattr(stub, name) for name in Stub.__struct_fields__} | {"delivery": other})
    tags = {json.loads(redis_message(envelope(each)))["properties"]["delivery_tag"] for each in (stub, again)}
    assert len(tags) == len({stub.delivery, other})


@given(st.binary())
@example(b"[" * 10_000)
@example(b'{"headers": {"ticketmill": {"v": 1e999}}}')
@example(b'{"headers": {"id": "\xff"}}')
@example(b'{"headers": {"id": "\\ud800", "ticketmill": null}}')
def test_bytes_of_any_kind_name_no_ticket(message: bytes) -> None:
    assert label_of_redis(message).stub is None


@given(STUBS, st.dictionaries(st.sampled_from(["v", "delivery", "priority", "tenant", "job", "conversation"]), JSON))
def test_a_mark_that_was_tampered_with_is_understood_or_names_no_ticket(stub: Stub, changes: dict[str, Any]) -> None:
    headers = dict(envelope(stub).headers)
    headers[HEADER] = {**headers[HEADER], **changes}
    read = label_of_headers(headers)
    if read.stub is not None:
        assert envelope(read.stub).headers[HEADER] == {**headers[HEADER], "v": VERSION}
    assert label_of_redis(json.dumps({"headers": headers}).encode()) == read


@given(STUBS, st.integers(VERSION + 1, 2**31))
def test_a_later_version_is_left_for_a_newer_worker(stub: Stub, version: int) -> None:
    headers: dict[str, Any] = {"task": TASK, "id": stub.id, HEADER: {"v": version, "anything": ["else"]}}
    assert label_of_headers(headers) == Label(newer=True)
    assert label_of_redis(json.dumps({"headers": headers}).encode()) == Label(newer=True)


@given(JSON)
def test_headers_of_any_shape_are_no_admitted_ticket(headers: object) -> None:
    assert label_of_headers(headers).stub is None
    assert label_of_redis(json.dumps({"headers": headers}).encode()).stub is None
