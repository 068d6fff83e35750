"""The demonstration itself: everything up, eighty tickets in through the API, and watched until the last is settled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import msgspec
from sqlalchemy.engine import Engine

from ops.demo.progress import Progress, Summary, progress, summary
from ops.demo.reviewer import accept_reviewed
from ops.demo.stage import Stage, demo_tickets
from ops.embedded import Embedded
from schemas.errors import TicketmillError
from schemas.ledger import open_ledger
from schemas.states import State

LOOK_EVERY_S = 0.5
GIVE_UP_S = 900.0
"""A demonstration that has not come to its end by then is stuck, even on a slow machine."""


class DemoFailed(TicketmillError):
    """The tickets could not be sent, or were not all settled."""


def run_demo(stage: Stage, embedded: Embedded, began: datetime, see: Callable[[Progress], None]) -> Summary:
    """Starts everything, sends the tickets, and looks twice a second until every one has a final state.

    Args:
        see: is given each look.

    Raises:
        TicketmillError: a part could not be started or kept alive, or the API took not every ticket.
    """
    embedded.start()
    while not embedded.api_is_up():
        embedded.watch(for_s=0.1)
    expected = send(embedded.api_url, embedded.key)
    ledger: Engine = open_ledger(stage.settings.ledger.url)
    try:
        seen = progress(ledger)
        stopped = False
        while seen.final < expected and not stopped and (datetime.now(UTC) - began).total_seconds() < GIVE_UP_S:
            see(seen)
            if seen.states.get(State.IN_REVIEW.value):
                accept_reviewed(ledger, datetime.now(UTC))
            stopped = embedded.watch(for_s=LOOK_EVERY_S)
            seen = progress(ledger)
        see(seen)
    finally:
        ledger.dispose()
    return summary(seen, expected, began, datetime.now(UTC), stage.settings.home, str(stage.config))


def send(api_url: str, key: str) -> int:
    """Sends the demonstration's tickets as any producer would; returns how many there are.

    Raises:
        DemoFailed: the API took not every one of them.
    """
    tickets = demo_tickets()
    lines = b"\n".join(msgspec.json.encode(ticket) for ticket in tickets)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson"}
    answer = httpx.post(f"{api_url}/v1/tickets", content=lines, headers=headers, timeout=60.0, trust_env=False)
    verdicts = [msgspec.json.decode(line) for line in answer.content.splitlines()]
    refused = [verdict for verdict in verdicts if "id" not in verdict]
    if answer.status_code != 200 or refused or len(verdicts) != len(tickets):
        raise DemoFailed(f"the API took not every ticket: {(refused or [answer.text[:200]])[0]}")
    return len(tickets)
