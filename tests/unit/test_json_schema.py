"""The schemas we publish say what our decoders do."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from ops.schema import WIRES, json_schema
from schemas.errors import Refused
from schemas.shipped_jobs import SHIPPED_JOBS
from schemas.ticket import Priority, new_ticket_from

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
FIELDS = st.fixed_dictionaries(
    {"body": TEXT | st.none()},
    optional={
        "subject": TEXT,
        "source": TEXT | st.from_regex(r"[A-Za-z0-9._:-]{0,70}", fullmatch=True),
        "priority": st.sampled_from([*Priority, "soon", 1]),
        "deadline": st.datetimes().map(lambda time: time.isoformat() + "Z") | TEXT | st.none(),
        "time_limit": st.floats() | st.integers() | TEXT | st.none(),
        "metadata": st.dictionaries(TEXT, TEXT | st.integers() | st.booleans() | st.none() | st.lists(st.integers())),
        "unknown": st.just(1),
    },
)


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json_schema(name), format_checker=FormatChecker())


@pytest.mark.parametrize("name", sorted(WIRES))
def test_every_schema_is_one(name: str) -> None:
    schema = json_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(Refused, match="'tickets' is none of ticket, "):
        json_schema("tickets")


@given(FIELDS)
def test_what_is_taken_for_a_ticket_is_valid_and_what_is_invalid_is_refused(fields: dict[str, Any]) -> None:
    try:
        ticket = new_ticket_from(fields)
    except Refused:
        return
    assert list(validator("ticket").iter_errors(fields)) == []
    assert list(validator("ticket").iter_errors(msgspec.to_builtins(ticket))) == []


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"body": ""},
        {"body": 1},
        {"body": "a", "unknown": 1},
        {"body": "a", "priority": "soon"},
        {"body": "a", "job": "a b"},
        {"body": "a", "job": "a\n"},
        {"body": "a", "metadata": {"k": [1]}},
        {"body": "a", "subject": "x" * 1001},
    ],
)
def test_what_we_refuse_the_schema_refuses(fields: dict[str, Any]) -> None:
    assert not validator("ticket").is_valid(fields)
    with pytest.raises(Refused):
        new_ticket_from(fields)


@pytest.mark.parametrize("name", sorted(SHIPPED_JOBS))
def test_the_shipped_jobs_are_valid_ones(name: str) -> None:
    job = msgspec.json.decode(msgspec.json.encode(SHIPPED_JOBS[name]))
    assert validator("job").is_valid(job)
    if job["answer_schema"] is not None:
        Draft202012Validator.check_schema(job["answer_schema"])
