"""What an upstream's HTTP reply means. Pure: status, headers and body in; an answer's parts or a failure out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from schemas.answer import Finish, Usage
from schemas.refusal import printable
from workers.policy.retry import Told

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
SHOWN = 200
"""Characters of an upstream's own words that go into a ticket's history."""


class Refusal(Exception):
    """A call that brought no answer.

    Attributes:
        error: its row in the retry matrix.
        told: what the upstream said of coming back.
    """

    def __init__(self, error: str, why: str, told: Told | None = None) -> None:
        super().__init__(why)
        self.error = error
        self.told = told or Told()


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said."""

    text: str
    finish: Finish
    usage: Usage


class _Details(msgspec.Struct):
    cached_tokens: int | None = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


_completion = msgspec.json.Decoder(_Completion)


def read_reply(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Reply:
    """The answer in a reply.

    Raises:
        Refusal: there is none.
    """
    if not 200 <= status < 300:
        raise Refusal(_kind(status, body), f"HTTP {status}: {_words(body)}", told(headers, now))
    try:
        completion = _completion.decode(body)
    except msgspec.DecodeError as error:
        raise Refusal("bad_response", f"its reply is no chat completion: {error}") from None
    if not completion.choices or not completion.choices[0].message.content:
        raise Refusal("bad_response", "its reply holds no answer")
    choice, used = completion.choices[0], completion.usage or _Usage()
    details = used.prompt_tokens_details or _Details()
    return Reply(
        text=choice.message.content or "",
        finish=Finish.LENGTH if choice.finish_reason == "length" else Finish.STOP,
        usage=Usage(
            prompt_tokens=max(0, used.prompt_tokens),
            reused_tokens=max(0, details.cached_tokens or 0),
            completion_tokens=max(0, used.completion_tokens),
        ),
    )


def told(headers: Mapping[str, str], now: datetime) -> Told:
    """What the headers say of coming back: ``retry-after-ms``, else ``retry-after`` in seconds or as a date (RFC 9110
    10.2.3), and ``x-should-retry``. What makes no sense counts as not said.

    Args:
        headers: with names in lower case.
    """
    should = {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())
    after_s = _number(headers.get("retry-after-ms", ""))
    if after_s is not None:
        return Told(retry_after_s=after_s / 1000, should_retry=should)
    written = headers.get("retry-after", "")
    after_s = _number(written)
    if after_s is None and written:
        after_s = _until(written, now)
    return Told(retry_after_s=after_s, should_retry=should)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _until(date: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return None
    then = then.replace(tzinfo=UTC) if then.tzinfo is None else then
    return max(0.0, (then - now).total_seconds())


def _kind(status: int, body: bytes) -> str:
    if status in RETRIED:
        return str(status)
    if status >= 500:
        return "500"
    if status in (401, 403, 404):
        return "forbidden"
    said = body[:10_000].lower()
    if status in (400, 413, 422) and (b"context_length" in said or b"context length" in said or b"too long" in said):
        return "context_overflow"
    return "refused" if status >= 400 else "bad_response"


def _words(body: bytes) -> str:
    """The upstream's own words, which are as hostile as any text from outside."""
    text = body[:10_000].decode("utf-8", "replace")
    try:
        found: Any = msgspec.json.decode(body)
        while isinstance(found, dict) and ("error" in found or "message" in found):
            found = found["error"] if "error" in found else found["message"]
        text = found if isinstance(found, str) else text
    except msgspec.DecodeError:
        pass  # not JSON: shown as it came
    return printable(" ".join(text.split())[:SHOWN]) or "no reason given"
