"""Floods of every kind, judged one text at a time by a gate that has seen nothing yet; and memory across senders."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ops.gate.floods import KINDS, drip, flood
from producer.adapters.gate_model import load_model
from producer.policy.copies import CopyLimits
from producer.policy.gate import TextGate
from producer.policy.text.content import ContentModel
from schemas.ticket import Ticket
from schemas.verdict import Action, Verdict
from tests.ground.real_text import Rows

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
STOPPED = (Action.REJECT, Action.REVIEW)
SAID = "The parcel that I ordered for my mother has not come, and the tracking page shows nothing since Tuesday."


@pytest.fixture(scope="module")
def model() -> ContentModel:
    return load_model()


def judge(gate: TextGate, body: str, number: int = 0, customer: str | None = None, tenant: str = "acme") -> Verdict:
    now = NOON + timedelta(seconds=number)
    who = f"c{number}" if customer is None else customer
    return gate.judge(Ticket(id=f"t{number}", tenant=tenant, body=body, customer=who, received_at=now), now)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_is_stopped(model: ContentModel, kind: str) -> None:
    chance = random.Random(3)
    verdicts = [judge(TextGate(model), flood(kind, chance)) for _ in range(20)]
    assert sum(verdict.action in STOPPED for verdict in verdicts) >= 19


def test_copies_from_many_senders_go_to_a_person_from_the_fourth_on(model: ContentModel) -> None:
    gate, chance = TextGate(model), random.Random(4)
    verdicts = [judge(gate, drip(SAID, chance), number) for number in range(12)]
    assert all(verdict.action is Action.ACCEPT for verdict in verdicts[:3])
    later = verdicts[3:]
    assert sum(verdict.action is Action.REVIEW for verdict in later) >= 0.8 * len(later)
    assert later[-1].scores["senders"] >= 4


def test_what_other_tenants_were_sent_counts_nothing_here(model: ContentModel) -> None:
    gate = TextGate(model)
    verdicts = [judge(gate, SAID, number, tenant=f"tenant{number}") for number in range(12)]
    assert {verdict.action for verdict in verdicts} == {Action.ACCEPT}


def test_tickets_that_name_no_customer_are_never_copies(model: ContentModel) -> None:
    gate = TextGate(model)
    verdicts = [judge(gate, SAID, number, customer="") for number in range(100)]
    assert {verdict.action for verdict in verdicts} == {Action.ACCEPT}


def test_memory_of_texts_stays_the_same_size(model: ContentModel, real_tickets: Callable[..., Rows]) -> None:
    gate = TextGate(model, copies=CopyLimits(entries=512))
    before = gate.size_bytes
    for number, row in enumerate(real_tickets("tickets_en", most=1500)):
        judge(gate, row["text"], number)
    assert gate.size_bytes == before


def test_a_source_under_attack_is_judged_more_strictly_and_recovers(model: ContentModel) -> None:
    gate, chance = TextGate(model), random.Random(5)
    borderline = "please check my channel, I make videos about parcels"
    calm = judge(gate, borderline, 0).scores["spam"]
    for number in range(1, 300):
        judge(gate, flood("phrase_en", chance), number)
    assert judge(gate, borderline, 301).scores["spam"] == calm  # its score stays, the line moves
    assert judge(gate, SAID, 302).action is Action.ACCEPT
