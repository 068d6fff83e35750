"""How far the demonstration is, read from its ledger; and what it came to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from ops.status import count_tickets
from schemas.answer import Answer
from schemas.ledger import reading
from schemas.states import FINAL, State
from schemas.tables import answers, attempts, tickets

LATEST = 5
"""Answers shown while it runs."""

BARS = " ▁▂▃▄▅▆▇█"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One answer on one line."""

    external_id: str
    job: str
    text: str


class Stay(msgspec.Struct, frozen=True):
    """A ticket's stay in a slot, and how many slots were in use when it ended."""

    ended_at: datetime
    batch_size: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the ledger.

    Attributes:
        states: tickets by state.
        stays: every stay that has ended, in order.
        waits_s: for each settled ticket, seconds from its acceptance to its final state.
        settled: when tickets were settled, in order.
    """

    states: dict[str, int]
    latest: list[Told]
    stays: list[Stay]
    waits_s: list[float]
    settled: list[datetime]

    @property
    def total(self) -> int:
        """Tickets accepted."""
        return sum(self.states.values())

    @property
    def final(self) -> int:
        """Tickets that nothing moves any more."""
        return sum(self.states.get(state.value, 0) for state in FINAL)

    @property
    def settled_per_s(self) -> float:
        """Tickets settled a second, from the first to the last so far."""
        spent_s = (self.settled[-1] - self.settled[0]).total_seconds() if self.settled else 0.0
        return len(self.settled) / spent_s if spent_s else 0.0

    @property
    def batch_size(self) -> int:
        """Slots in use when the last ticket ended; 0 before the first."""
        return self.stays[-1].batch_size if self.stays else 0


def progress(ledger: Engine) -> Progress:
    """Looks at the demonstration's ledger now."""
    with reading(ledger) as connection:
        by_priority = count_tickets(connection)
        told = connection.execute(
            sa.select(tickets.c.external_id, tickets.c.job, answers.c.document)
            .join(answers, answers.c.ticket_id == tickets.c.id)
            .order_by(answers.c.at.desc())
            .limit(LATEST)
        ).all()
        stays = connection.execute(
            sa.select(attempts.c.ended_at, attempts.c.batch_size).order_by(attempts.c.ended_at, attempts.c.id)
        ).all()
        settled = connection.execute(
            sa.select(tickets.c.received_at, tickets.c.settled_at)
            .where(tickets.c.settled_at.is_not(None))
            .order_by(tickets.c.settled_at)
        ).all()
    return Progress(
        states={state: sum(counts.values()) for state, counts in by_priority.items()},
        latest=[Told(external_id=row.external_id, job=row.job, text=_text(row.document)) for row in told],
        stays=[Stay(row.ended_at, row.batch_size) for row in stays],
        waits_s=sorted((row.settled_at - row.received_at).total_seconds() for row in settled),
        settled=[row.settled_at for row in settled],
    )


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What the demonstration came to.

    Attributes:
        all_final: every ticket reached a final state.
        first_answer_s: from the start of the command to the first answer; None if there was none.
        p50_s, p95_s: from a ticket's acceptance to its final state. All were accepted at once: most of it is queueing.
        batch_sizes: slots in use over time, in equal spans from the first stay's end to the last one's.
    """

    all_final: bool
    tickets: dict[str, int]
    seconds: float
    first_answer_s: float | None
    tickets_per_s: float
    p50_s: float
    p95_s: float
    largest_batch: int
    batch_sizes: list[float]
    home: str
    config: str


def summary(seen: Progress, expected: int, began: datetime, now: datetime, home: str, config: str) -> Summary:
    """The figures of a run that began then and ended now."""
    answered = seen.states.get(State.ANSWERED.value, 0)
    return Summary(
        all_final=seen.final == seen.total == expected,
        tickets=seen.states,
        seconds=(now - began).total_seconds(),
        first_answer_s=(seen.settled[0] - began).total_seconds() if answered else None,
        tickets_per_s=seen.settled_per_s,
        p50_s=quantile(seen.waits_s, 0.50),
        p95_s=quantile(seen.waits_s, 0.95),
        largest_batch=max((stay.batch_size for stay in seen.stays), default=0),
        batch_sizes=batch_sizes(seen.stays, 40),
        home=home,
        config=config,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed; 0 if there are none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def batch_sizes(stays: Sequence[Stay], spans: int) -> list[float]:
    """Mean batch size in each of that many equal spans of time; an empty span repeats the one before."""
    if not stays:
        return []
    first, last = stays[0].ended_at, stays[-1].ended_at
    span_s = max((last - first).total_seconds() / spans, 1e-9)
    buckets: list[list[int]] = [[] for _ in range(spans)]
    for stay in stays:
        buckets[min(spans - 1, int((stay.ended_at - first).total_seconds() / span_s))].append(stay.batch_size)
    sizes: list[float] = []
    for bucket in buckets:
        sizes.append(round(sum(bucket) / len(bucket), 1) if bucket else sizes[-1])
    return sizes


def sparkline(values: Sequence[float]) -> str:
    """Values as bars of text, the largest one full."""
    top = max(values, default=0.0) or 1.0
    return "".join(BARS[round(value / top * (len(BARS) - 1))] for value in values)


def _text(document: str) -> str:
    return msgspec.json.decode(document, type=Answer).text
