"""Commands that look: ``show``, ``answers``, ``dead``, ``status``."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable

import pytest

from ops.facts import PAGE
from tests.ops.conftest import HOSTILE, Desk, Said

Command = Callable[..., Said]
STEERING = "\x1b\u202e"


def test_show_tells_a_tickets_whole_story(ticketmill: Command, desk: Desk) -> None:
    ticket = desk.answered("On its way.", external_id="4711", subject="Parcel", metadata={"order": 7})
    facts = ticketmill("show", ticket, "--json", LEDGER_URL=desk.url).facts
    assert [each["after"] for each in facts["history"]] == ["queued", "running", "answered"]
    assert (facts["attempts"][0]["batch"], facts["attempts"][0]["batch_size"]) == ("b1", 8)
    assert facts["answer"]["text"] == "On its way."
    for name in (ticket, "4711"):
        said = ticketmill("show", name, LEDGER_URL=desk.url)
        assert said.code == 0
        for word in ("Parcel", "order", "queued", "running", "answered", "celery@here", "b1", "On its way."):
            assert word in said.out


def test_show_says_what_there_is_not(ticketmill: Command, desk: Desk) -> None:
    said = ticketmill("show", "nope", LEDGER_URL=desk.url)
    assert (said.code, said.out, said.err) == (1, "", "ticketmill: there is no ticket 'nope'\n")


def test_an_external_id_of_several_tickets_names_none(ticketmill: Command, desk: Desk) -> None:
    desk.take(external_id="7", source="a")
    desk.take(external_id="7", source="b")
    assert ticketmill("show", "7", LEDGER_URL=desk.url).code == 1


def test_what_a_customer_wrote_steers_no_terminal(ticketmill: Command, desk: Desk) -> None:
    ticket = desk.answered(HOSTILE, body=HOSTILE, subject=HOSTILE, metadata={HOSTILE: HOSTILE})
    desk.dead(HOSTILE)
    desk.stray(HOSTILE.encode(), HOSTILE)
    for arguments in (
        ("show", ticket),
        ("answers",),
        ("dead",),
        ("answers", "--format", "jsonl"),
        ("dead", "list", "--json"),
    ):
        said = ticketmill(*arguments, LEDGER_URL=desk.url)
        assert said.code == 0
        assert not set(STEERING) & set(said.out)
        assert "[bold]x[/bold]" in said.out


def test_answers_in_three_shapes_hold_the_same(ticketmill: Command, desk: Desk) -> None:
    first = desk.answered("Eins, zwei.", external_id="a")
    second = desk.answered("第二", external_id="b", job="triage")
    desk.take(external_id="open")
    lines = [
        json.loads(line) for line in ticketmill("answers", "--format", "jsonl", LEDGER_URL=desk.url).out.splitlines()
    ]
    assert [(line["id"], line["answer"]["text"]) for line in lines] == [(first, "Eins, zwei."), (second, "第二")]
    rows = list(csv.DictReader(io.StringIO(ticketmill("answers", "--format", "csv", LEDGER_URL=desk.url).out)))
    assert [(row["id"], row["text"]) for row in rows] == [(first, "Eins, zwei."), (second, "第二")]
    table = ticketmill("answers", LEDGER_URL=desk.url).out
    assert "2 answers" in table
    assert "第二" in table


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--job", "triage"), ["b"]),
        (("--external-id", "a"), ["a"]),
        (("--since", "2026-03-01T12:00:01Z"), ["a", "b"]),
        (("--since", "2026-03-02"), []),
        (("--job", "triage", "--external-id", "a"), []),
    ],
)
def test_answers_can_be_picked(ticketmill: Command, desk: Desk, options: tuple[str, ...], found: list[str]) -> None:
    desk.answered(external_id="a")
    desk.answered(external_id="b", job="triage")
    said = ticketmill("answers", "--format", "jsonl", *options, LEDGER_URL=desk.url)
    assert [json.loads(line)["external_id"] for line in said.out.splitlines()] == found


def test_no_cell_of_an_export_is_a_formula(ticketmill: Command, desk: Desk) -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", '=HYPERLINK("http://x.invalid","a")', "plain"]
    for number, text in enumerate(texts):
        desk.answered(text, external_id=f"={number}")
    rows = list(csv.reader(io.StringIO(ticketmill("answers", "--format", "csv", LEDGER_URL=desk.url).out)))
    assert len(rows) == len(texts) + 1
    for row in rows:
        assert not any(cell[:1] in set("=+-@\t\r") and cell for cell in row)


def test_a_date_that_is_none_is_refused(ticketmill: Command, desk: Desk) -> None:
    said = ticketmill("answers", "--since", "yesterday", LEDGER_URL=desk.url)
    assert said.code == 2
    assert said.err.startswith("ticketmill: --since: 'yesterday' is no date")


def test_long_lists_are_read_to_their_end(ticketmill: Command, sqlite_ledger: object) -> None:
    desk = Desk(sqlite_ledger)  # type: ignore[arg-type]  the fixture's own type
    for _ in range(PAGE + 3):
        desk.answered()
    lines = ticketmill("answers", "--format", "jsonl", LEDGER_URL=desk.url).out.splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == PAGE + 3


def test_dead_lists_tickets_and_strays_with_reasons(ticketmill: Command, desk: Desk) -> None:
    ticket = desk.dead("the model refused it", external_id="d")
    desk.stray(b"\x00\xffnot a ticket", "no JSON")
    facts = ticketmill("dead", "list", "--json", LEDGER_URL=desk.url).facts
    assert [(each["id"], each["reason"]) for each in facts["tickets"]] == [(ticket, "the model refused it")]
    (stray,) = facts["strays"]
    assert (stray["reason"], stray["queue"]) == ("no JSON", "ticketmill.low")
    shown = ticketmill("dead", "show", stray["id"], "--json", LEDGER_URL=desk.url).facts
    assert base64.b64decode(shown["body"]) == b"\x00\xffnot a ticket"
    assert "00 ff 6e 6f 74" in ticketmill("dead", "show", stray["id"], LEDGER_URL=desk.url).out
    assert "the model refused it" in ticketmill("dead", LEDGER_URL=desk.url).out


def test_status_counts_by_state_and_priority_with_the_broker_away(ticketmill: Command, desk: Desk) -> None:
    desk.answered(priority="urgent")
    desk.take()
    desk.take(priority="low")
    desk.take(priority="backfill")
    said = ticketmill("status", "--json", LEDGER_URL=desk.url)
    facts = said.facts
    assert facts["tickets"] == {
        "answered": {"urgent": 1},
        "queued": {"normal": 1, "low": 1},
        "received": {"backfill": 1},
    }
    assert facts["broker"] is None
    assert "Run `ticketmill up`" in facts["broker_error"]
    assert facts["oldest_queued_s"] > 0
    assert "answered" in ticketmill("status", LEDGER_URL=desk.url).out


def test_status_shows_what_lies_on_the_broker(ticketmill: Command, desk: Desk, broker: object) -> None:
    url: str = broker.url  # type: ignore[attr-defined]  a fixture of tests.ground
    for _ in range(3):
        assert ticketmill("enqueue", "--body", "x", "--priority", "high", LEDGER_URL=desk.url, BROKER_URL=url).code == 0
    facts = ticketmill("status", "--json", LEDGER_URL=desk.url, BROKER_URL=url).facts
    assert facts["broker"]["queues"]["ticketmill.high"] == 3
    assert facts["broker"]["kind"] in ("Redis", "Valkey", "RabbitMQ")
