"""Tickets in review, and people to judge them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.engine import Engine

from producer.adapters.clock import utc_now
from producer.adapters.key_ring import SqlKeyRing
from producer.adapters.ledger import SqlLedger
from producer.admission import OpenGate
from producer.api_keys import digest_of, make_key
from producer.intake import Incoming, Intake
from producer.ports import Receipt
from schemas.ledger import new_ids
from schemas.review import Holder, Role
from schemas.ticket import NewTicket, Ticket
from schemas.verdict import Action, Code, Verdict


class StrictGate(OpenGate):
    """Sends every ticket to review, and rejects those whose body begins with REJECT."""

    def judge(self, tickets: Sequence[Ticket], now: datetime) -> list[Verdict]:  # noqa: ARG002  the port's shape
        """One verdict a ticket."""
        return [_REJECT if each.body.startswith("REJECT") else _REVIEW for each in tickets]


_REVIEW = Verdict(
    action=Action.REVIEW,
    code=Code.CREATIVE,
    reasons=("it repeats itself like verse", "its words are rare in tickets"),
    scores={"creative": 0.93, "repeated": 0.41},
)
_REJECT = Verdict(action=Action.REJECT, code=Code.SPAM, reasons=("it advertises",), scores={"spam": 0.99})


def send(
    engine: Engine, *sent: NewTicket, tenant: str = "acme", now: datetime | None = None, ages: Sequence[timedelta] = ()
) -> list[str]:
    """Takes tickets in through that gate; their ids. ``ages`` says how long ago each came."""
    intake = Intake(SqlLedger(engine), StrictGate(), {"reply", "triage"}, new_ids)
    now = now or utc_now()
    ids: list[str] = []
    for number, ticket in enumerate(sent):
        at = now - ages[number] if ages else now
        (outcome,) = intake.take_in([Incoming(ticket=ticket, tenant=tenant)], at)
        assert isinstance(outcome, Receipt), outcome
        ids.append(outcome.ticket_id)
    return ids


def person(engine: Engine, label: str, tenant: str = "acme", role: Role = Role.REVIEWER) -> tuple[Holder, str]:
    """Somebody with a key, and the key."""
    ring = SqlKeyRing(engine)
    _, key = make_key(ring, tenant, label, utc_now(), role)
    holder = ring.holder(digest_of(key))
    assert holder is not None
    return holder, key
