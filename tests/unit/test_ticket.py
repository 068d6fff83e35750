"""What is taken for a ticket, and in which words the rest is turned away."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import Refused
from schemas.ticket import (
    MAX_BODY_CHARS,
    MAX_METADATA_CHARS,
    NewTicket,
    Priority,
    Ticket,
    decode_new_ticket,
    new_ticket_from,
)
from tests.ground.real_text import Rows

FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(NewTicket))
PLACES = (*FIELDS[:-1], "metadata", "metadata name")
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def in_field(field: str, text: str) -> dict[str, Any]:
    """A ticket that would be well but for this text in this field."""
    if field == "metadata":
        return {"body": "help", "metadata": {"note": text}}
    if field == "metadata name":
        return {"body": "help", "metadata": {text: "note"}}
    return {"body": "help", field: text}


def held(ticket: NewTicket, field: str) -> str | None:
    """The same text back."""
    if field == "metadata":
        return str(ticket.metadata["note"])
    if field == "metadata name":
        return next(iter(ticket.metadata))
    value = getattr(ticket, field)
    return None if value is None else str(value)


def through_the_ledger(ticket: NewTicket) -> Ticket:
    """What comes back of a ticket that is kept as JSON, as the ledger keeps it."""
    kept = Ticket(**msgspec.structs.asdict(ticket), id="1", tenant="t", received_at=NOW)
    return msgspec.json.decode(msgspec.json.encode(kept), type=Ticket)


def taken(decode: Callable[[Any], NewTicket], given_as: object) -> NewTicket | Refused:
    """The ticket, or the refusal."""
    try:
        return decode(given_as)
    except Refused as refusal:
        return refusal


def assert_refused_by_name_or_kept(field: str, text: str) -> None:
    fields = in_field(field, text)
    for outcome in (taken(new_ticket_from, fields), taken(decode_new_ticket, json.dumps(fields).encode())):
        if isinstance(outcome, Refused):
            assert outcome.field.startswith(field.split()[0])
            assert str(outcome).isprintable()
        elif field != "deadline":
            assert held(through_the_ledger(outcome), field) == text


def assert_one_short_line(refusal: Refused) -> None:
    assert str(refusal).isprintable()
    assert len(str(refusal)) < 300


@given(
    st.sampled_from([*FIELDS[:-1], "metadata", "metadata name"]), st.text() | st.text(st.characters(categories=["C"]))
)
@example("body", "\ud800")
@example("body", "\udc00\ud800")
@example("external_id", "\x00")
@example("metadata name", "\ud800")
@example("deadline", "0001-01-01T00:00:00+14:00")
def test_any_text_in_any_field_is_refused_by_name_or_kept_exactly(field: str, text: str) -> None:
    assert_refused_by_name_or_kept(field, text)


@pytest.mark.parametrize("field", PLACES)
def test_every_hostile_string_is_refused_by_name_or_kept_exactly(field: str, real_tickets: Callable[..., Rows]) -> None:
    for row in real_tickets("edge_strings"):
        assert_refused_by_name_or_kept(field, row["text"])


@pytest.mark.parametrize("field", ["body", "subject", "metadata"])
def test_free_text_takes_every_hostile_string_that_says_something(
    field: str, real_tickets: Callable[..., Rows]
) -> None:
    texts = [row["text"] for row in real_tickets("edge_strings") if row["text"].strip() and "\x00" not in row["text"]]
    for text in texts:
        assert held(new_ticket_from(in_field(field, text)), field) == text


@given(st.binary())
@example(b'{"body": "a"')
@example(b'{"body": "a"} {"body": "b"}')
@example(b"[" * 100_000)
@example(b'{"body":' * 100_000)
@example(b'{"body": "\xff"}')
@example(b'{"body": "a", "metadata": {"n": ' + b"9" * 5000 + b"}}")
@example(b'{"body": "a", "metadata": {"n": 1e999}}')
def test_bytes_that_are_no_ticket_are_refused_in_one_printable_line(raw: bytes) -> None:
    with pytest.raises(Refused) as refused:
        decode_new_ticket(raw)
    assert_one_short_line(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(), JSON))
@example({"body": "a", "metadata": {"x": float("nan")}})
@example({"body": "a", "metadata": {"x": 10**5000}})
@example({"body": "a", "\x1b[31m": 1})
def test_fields_of_any_shape_are_refused_by_name_or_kept_exactly(fields: dict[str, Any]) -> None:
    outcome = taken(new_ticket_from, fields)
    if isinstance(outcome, Refused):
        assert_one_short_line(outcome)
    else:
        back = through_the_ledger(outcome)
        assert all(getattr(back, name) == getattr(outcome, name) for name in FIELDS)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "body: is missing"),
        ({"body": 5}, "body: must be text, not a whole number"),
        ({"body": " \n"}, "body: is blank; a ticket needs some text"),
        ({"body": ""}, "body: is empty"),
        ({"body": "x" * (MAX_BODY_CHARS + 1)}, f"body: is longer than {MAX_BODY_CHARS} characters"),
        ({"body": "a", "x": 1}, "x: is not a field of a ticket"),
        ({"body": "a", "x\x1b[2J": 1}, r"x\x1b[2J: is not a field of a ticket"),
        ({"body": "a", "priority": "soon"}, "priority: must be one of urgent, high, normal, low, backfill"),
        ({"body": "a", "job": "a b"}, "job: must begin with a letter or digit and hold nothing but letters, digits"),
        ({"body": "a", "deadline": "now"}, "deadline: must be a time with its zone, like 2026-01-31T09:00:00Z"),
        ({"body": "a", "deadline": "2026-01-31"}, "deadline: must be a time with its zone"),
        ({"body": "a", "deadline": "2026-01-31T09:00:00"}, "deadline: must be a time with its zone"),
        ({"body": "a", "time_limit": 0}, "time_limit: must be"),
        ({"body": "a", "time_limit": float("nan")}, "time_limit: must be"),
        ({"body": "a", "external_id": "a\nb"}, "external_id: holds a control, separator or unassigned character"),
        ({"body": "a", "metadata": {"": 1}}, "metadata: has a name that is empty"),
        ({"body": "a", "metadata": {"k": [1]}}, "metadata: must be true or false or a whole number or"),
        ({"body": "a", "metadata": {"k": "\ud800"}}, "metadata.k: holds a lone surrogate"),
        ({"body": "a", "metadata": {"k": 2**63}}, "metadata.k: is over 9223372036854775807"),
        ({"body": "a", "metadata": {"k": "x" * 5000}}, f"metadata: is over {MAX_METADATA_CHARS} characters as JSON"),
    ],
)
def test_a_refusal_names_the_field_and_says_what_would_be_right(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused) as refused:
        new_ticket_from(fields)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "ticket: ends in the middle of its JSON"),
        (b'{"body": "a"', "ticket: ends in the middle of its JSON"),
        (b"[]", "ticket: must be an object of names and values, not a list"),
        (b'{"body": "a"} x', "ticket: is not JSON: trailing characters (byte 15)"),
        (b'{"body": "\xff"}', "ticket: holds bytes that are not UTF-8"),
        (b'{"body": "\\ud800"}', "body: holds a lone surrogate, which is no character; send valid Unicode"),
        (b'{"body": "a", "metadata": {"k": "\\ud800x"}}', "metadata.k: holds a lone surrogate"),
        (b'{"body": "a\\u0000"}', "body: holds a NUL character; remove it"),
        (b'{"body": "a", "metadata": {"k": NaN}}', "ticket: is not JSON: invalid character (byte 32)"),
    ],
)
def test_bytes_are_refused_in_words_that_help(raw: bytes, says: str) -> None:
    with pytest.raises(Refused) as refused:
        decode_new_ticket(raw)
    assert str(refused.value).startswith(says)


def test_a_byte_order_mark_is_no_part_of_the_ticket() -> None:
    assert decode_new_ticket(b'\xef\xbb\xbf{"body": "a"}').body == "a"


def test_what_is_left_out_has_its_default() -> None:
    ticket = decode_new_ticket(b'{"body": "help"}')
    assert (ticket.source, ticket.revision, ticket.priority, ticket.job) == ("api", "1", Priority.NORMAL, "reply")


def test_the_first_priority_is_served_first_and_ranks_are_stored() -> None:
    assert [priority.rank for priority in Priority] == [0, 1, 2, 3, 4]
    assert [Priority.of_rank(priority.rank) for priority in Priority] == list(Priority)
