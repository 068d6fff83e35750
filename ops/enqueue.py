"""One ticket through the same intake as every other door's, from a command line."""

from __future__ import annotations

from datetime import datetime

from producer.boot import Producer
from producer.intake import Incoming, TurnedAway
from producer.ports import Receipt
from schemas.errors import BrokerUnavailable, Refused, Unavailable
from schemas.ticket import NewTicket


def enqueue(producer: Producer, ticket: NewTicket, tenant: str, now: datetime) -> tuple[Receipt, str]:
    """Takes a ticket in; returns its receipt, and why it is not on the broker yet (empty if it is).

    A broker that is away is no failure: the ticket is in the ledger, and whoever relays publishes it later.

    Raises:
        Refused: the ticket asks for what there is not.
        Unavailable: it was throttled, or the ledger is away. Nothing was written then.
    """
    (outcome,) = producer.intake.take_in([Incoming(ticket=ticket, tenant=tenant)], now)
    if isinstance(outcome, TurnedAway):
        if outcome.retry_after_s is None:
            raise Refused(outcome.field, outcome.why)
        raise Unavailable(outcome.field, outcome.why, f"Send it again in {outcome.retry_after_s:.0f} s")
    if outcome.stub is None:
        return outcome, ""
    try:
        producer.relay().hand_over([outcome.stub], now)
    except BrokerUnavailable as error:
        return outcome, str(error)
    return outcome, ""
