"""What upstreams say, read: statuses, headers and bodies, whole and broken."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.answer import Finish, Usage
from schemas.retry_matrix import RETRY_MATRIX
from workers.engine.remote.replies import Refusal, read_reply, told

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


def completion(content: str | None = "Soon.", **extra: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}], **extra}).encode()


def refusal(status: int, body: bytes = b"", **headers: str) -> Refusal:
    with pytest.raises(Refusal) as raised:
        read_reply(status, headers, body, NOW)
    return raised.value


def test_an_answer_with_its_tokens() -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}
    reply = read_reply(200, {}, completion(usage=usage), NOW)
    assert (reply.text, reply.finish) == ("Soon.", Finish.STOP)
    assert reply.usage == Usage(prompt_tokens=90, reused_tokens=64, completion_tokens=7)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (429, b"", "429"),
        (503, b"busy", "503"),
        (500, b"", "500"),
        (529, b"", "500"),
        (502, b"<html>", "502"),
        (504, b"", "504"),
        (408, b"", "408"),
        (401, b'{"error": {"message": "no such key"}}', "forbidden"),
        (404, b'{"error": "no such model"}', "forbidden"),
        (400, b'{"error": {"code": "context_length_exceeded", "message": "x"}}', "context_overflow"),
        (422, b"{}", "refused"),
        (307, b"", "bad_response"),
        (200, b'{"choices": [{"mess', "bad_response"),
        (200, b"[]", "bad_response"),
        (200, b"\xff\xfe", "bad_response"),
        (200, b'{"choices": []}', "bad_response"),
        (200, completion(None), "bad_response"),
        (200, completion(""), "bad_response"),
    ],
)
def test_every_failure_has_its_row(status: int, body: bytes, error: str) -> None:
    assert refusal(status, body).error == error
    assert error in RETRY_MATRIX


def test_an_upstreams_words_are_shown_without_what_a_terminal_would_obey() -> None:
    said = str(refusal(503, json.dumps({"error": {"message": "down\x1b[2J\n for now" + "x" * 999}}).encode()))
    assert said.isprintable()
    assert "down" in said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("headers", "after_s"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Tue, 01 Dec 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Tue, 01 Dec 2026 11:00:00 GMT"}, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_when_to_come_back(headers: dict[str, str], after_s: float | None) -> None:
    assert told(headers, NOW).retry_after_s == after_s


def test_whether_to_come_back() -> None:
    assert told({"x-should-retry": "false"}, NOW).should_retry is False
    assert told({"x-should-retry": "TRUE"}, NOW).should_retry is True
    assert told({"x-should-retry": "perhaps"}, NOW).should_retry is None


@given(st.integers(100, 599), st.binary(max_size=200), st.text(max_size=40))
def test_no_reply_whatever_breaks_us(status: int, body: bytes, header: str) -> None:
    refused = refusal(status, body, **{"retry-after": header, "x-should-retry": header})
    assert refused.error in RETRY_MATRIX
    assert str(refused).isprintable()
