"""``ticketmill dead``: what was given up is found, exported and queued again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import msgspec
import pytest

from schemas.envelope import Stub
from schemas.outcome import Dead
from schemas.ticket import Priority
from tests.contract.tickets import NOON, row, rows_of
from tests.ops.conftest import HOSTILE, Desk, Said
from workers.adapters.ledger import SqlLedger
from workers.ports import Delivery, Settlement, Start

Command = Callable[..., Said]


def start(desk: Desk, ticket: str) -> int:
    """Has a worker begin it; how many tries it counts."""
    delivery = int(row(desk.engine, ticket)["delivery"])
    stub = Stub(id=ticket, delivery=delivery, priority=Priority.NORMAL, tenant="acme", job="reply", conversation="")
    begun = SqlLedger(desk.engine).commit([], [Start(delivery=Delivery(stub=stub, token="", queue=""))], "w", NOON)
    return begun.started[ticket].tries


def test_a_dead_ticket_is_queued_again_with_all_its_tries(ticketmill: Command, desk: Desk) -> None:
    ticket = desk.dead("engine: it broke")
    said = ticketmill("dead", "requeue", ticket, "--yes", LEDGER_URL=desk.url)
    assert (said.code, said.out.partition(";")[0]) == (0, "1 tickets queued again")
    now = row(desk.engine, ticket)
    assert (now["state"], now["delivery"], now["published_at"]) == ("queued", 2, None)
    assert rows_of(desk.engine, "history", ticket)[-1]["reason"].startswith("queued again by ")
    assert start(desk, ticket) == 1
    settlement = Settlement(
        ticket_id=ticket, start=2, outcome=Dead("again"), batch="", batch_size=0, started_at=NOON, ended_at=NOON
    )
    assert SqlLedger(desk.engine).commit([settlement], [], "w", NOON).settled == {ticket}
    assert ticketmill("dead", "requeue", "--all", "--yes", "--json", LEDGER_URL=desk.url).facts == {"queued": [ticket]}
    assert start(desk, ticket) == 1


def test_only_what_is_picked_is_listed_exported_and_queued(ticketmill: Command, desk: Desk) -> None:
    late = desk.dead("timeout: no answer within 60 s", job="triage")
    broken = desk.dead("engine: 100% broken_")
    desk.answered()
    for options, found in (
        ((), [late, broken]),
        (("--job", "triage"), [late]),
        (("--reason", "100%"), [broken]),
        (("--reason", "n_"), [broken]),
        (("--tenant", "nobody"), []),
        (("--since", "2026-03-02"), []),
    ):
        facts = ticketmill("dead", "list", "--json", *options, LEDGER_URL=desk.url).facts
        assert [each["id"] for each in facts["tickets"]] == found
        lines = ticketmill("dead", "export", *options, LEDGER_URL=desk.url).out.splitlines()
        assert [json.loads(line)["ticket"]["id"] for line in lines] == found
    said = ticketmill("dead", "requeue", "--all", "--reason", "timeout", "--yes", "--json", LEDGER_URL=desk.url)
    assert said.facts == {"queued": [late]}


def test_an_export_has_no_formula_and_no_control(ticketmill: Command, desk: Desk) -> None:
    desk.dead("=1+1", body="@SUM(1)" + HOSTILE, subject="-1")
    (found,) = csv.DictReader(io.StringIO(ticketmill("dead", "export", "--format", "csv", LEDGER_URL=desk.url).out))
    assert all(found[name][:1] not in set("=+-@") for name in ("reason", "subject", "body"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "name tickets, or pick them with --all"),
        (("nope", "--yes"), 1, "there is no dead ticket 'nope'"),
        (("nope", "--all"), 2, "name tickets, or pick them with --all"),
        (("--all", "--since", "once"), 2, "'once' is no date"),
    ],
)
def test_what_cannot_be_queued_again(
    ticketmill: Command, desk: Desk, arguments: tuple[str, ...], code: int, words: str
) -> None:
    said = ticketmill("dead", "requeue", *arguments, LEDGER_URL=desk.url)
    assert said.code == code
    assert words in said.err


def test_an_answered_ticket_is_never_queued_again(ticketmill: Command, desk: Desk) -> None:
    ticket = desk.answered()
    assert ticketmill("dead", "requeue", ticket, "--yes", LEDGER_URL=desk.url).code == 1
    assert row(desk.engine, ticket)["state"] == "answered"


def test_a_conversation_keeps_its_order(ticketmill: Command, desk: Desk) -> None:
    first = desk.dead("broken", conversation="c", external_id="1")
    second = desk.take(conversation="c", external_id="2")
    assert msgspec.json.encode(ticketmill("dead", "requeue", first, "-y", "--json", LEDGER_URL=desk.url).facts)
    assert row(desk.engine, first)["due_at"] is None  # the second is on its queue already; this one follows it
    desk.settle(second, Dead("too"))
    assert row(desk.engine, first)["due_at"] is not None
