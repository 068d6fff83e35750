"""Review from the command line: whose key may judge, what waits, and what was decided."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from producer.adapters.clock import utc_now
from producer.adapters.key_ring import SqlKeyRing
from producer.adapters.reviews import SqlReviews
from producer.api_keys import digest_of
from schemas.review import Lane, Order, Role, Step, Why
from schemas.ticket import NewTicket
from tests.ground.ledgers import TestLedger
from tests.ground.reviewing import person, send
from tests.ops.conftest import HOSTILE, Said

Command = Callable[..., Said]


@pytest.fixture
def desk(ticketmill: Command, sqlite_ledger: TestLedger) -> Command:
    """The command, over a ledger with one ticket that waits and one that was rejected and noted as such."""
    kept, gone = send(sqlite_ledger.engine, NewTicket(body=HOSTILE), NewTicket(body="REJECT", external_id="=1+1"))
    ana, _ = person(sqlite_ledger.engine, "Ana")
    reviews = SqlReviews(sqlite_ledger.engine, claim_for=timedelta(minutes=5), undo_for=timedelta(0))
    note = Order(step=Step.REJECT, tickets=[gone], lane=Lane.REJECTED, reason=Why.SPAM, note="@SUM(1)")
    assert reviews.carry_out(ana, note, utc_now()).done == [gone]
    assert kept

    def command(*arguments: str) -> Said:
        return ticketmill(*arguments, LEDGER_URL=sqlite_ledger.url)

    return command


def test_what_waits_is_listed_and_cannot_steer_the_terminal(desk: Command) -> None:
    said = desk("reviews")
    assert said.code == 0
    assert "1 tickets; judge them at /review" in said.out
    assert "creative" in said.out
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    assert "[bold]x[/bold]" in said.out
    (item,) = [json.loads(line) for line in desk("reviews", "--format", "jsonl").out.splitlines()]
    assert (item["tenant"], item["code"]) == ("acme", "creative")
    assert desk("reviews", "--tenant", "globex", "--format", "jsonl").out == ""


def test_decisions_are_exported_without_formulas(desk: Command) -> None:
    (row,) = csv.DictReader(io.StringIO(desk("reviews", "--decisions", "--format", "csv").out))
    assert (row["reviewer"], row["reason"], row["was"]) == ("Ana", "spam", "rejected")
    assert (row["external_id"], row["note"], row["gate_said"]) == ("'=1+1", "'@SUM(1)", "it advertises")
    assert "Ana" in desk("reviews", "--decisions").out
    assert json.loads(desk("reviews", "--decisions", "--format", "jsonl").out)["step"] == "reject"


@pytest.mark.parametrize("role", list(Role))
def test_a_key_is_made_for_a_role(desk: Command, sqlite_ledger: TestLedger, role: Role) -> None:
    made = desk("key", "create", "--tenant", "acme", "--role", role.value, "--json").facts
    holder = SqlKeyRing(sqlite_ledger.engine).holder(digest_of(made["key"]))
    assert holder is not None
    assert (made["role"], holder.role) == (role.value, role)
    assert role.value in desk("key", "list").out


def test_a_key_is_a_senders_unless_said_otherwise(desk: Command) -> None:
    assert desk("key", "create", "--json").facts["role"] == "sender"
    assert desk("key", "create", "--role", "boss").code == 2
