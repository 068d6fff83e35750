"""Admission as a whole: how a sender behaves, which costs next to nothing to ask, and then what its ticket says."""

from __future__ import annotations

import ipaddress
import threading
import zlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec

from producer.policy.gate import TextGate
from producer.policy.senders import Level, Pace, Senders
from producer.policy.text.content import ContentModel
from producer.policy.trust import Trusted
from producer.ports import Caller, Rates, Tally
from schemas.ticket import Ticket
from schemas.verdict import Action, Code, Verdict

ACCEPT = Verdict()

BLAME = {Code.SHAPE: 0.2, Code.SPAM: 0.2, Code.COPIES: 0.05}
"""Heat for a ticket that was stopped, by its reason; see ``senders.HEAT``."""

MOST_KEPT = 100
"""Rejected tickets that the ledger keeps, between two flushes of the tally (a second). The rest is only counted."""

MOST_SAMPLES = 20
"""Throttled tickets of which a verdict is kept, between two flushes of the tally."""


class OpenGate:
    """Admission that turns nobody away."""

    def judge(self, tickets: Sequence[Ticket], now: datetime) -> list[Verdict]:  # noqa: ARG002  the port's shape
        """Accepts each."""
        return [ACCEPT] * len(tickets)

    def judge_held(self, tickets: Sequence[Ticket]) -> list[Verdict]:
        """Accepts each."""
        return [ACCEPT] * len(tickets)

    def knock(self, caller: Caller, now: datetime) -> Verdict:  # noqa: ARG002  the port's shape
        """Accepts it."""
        return ACCEPT


class Admission:
    """The gate of one process, for all its doors: they share what it remembers.

    Args:
        senders: what is remembered of customers.
        callers: what is remembered of those who make requests.
        rates: what other processes count too; None where there are none.
        trusted: whom nothing but the text is asked of.
        sample: the share of rejected tickets that a person looks at all the same: how else would a loss be seen?
    """

    def __init__(
        self,
        text: TextGate,
        senders: Senders,
        callers: Senders,
        rates: Rates | None,
        trusted: Trusted,
        sample: float,
    ) -> None:
        self._text = text
        self._senders = senders
        self._callers = callers
        self._rates = rates
        self._trusted = trusted
        self._sample = sample
        # Two locks: a request at the door never waits for the verdicts on a thousand tickets.
        self._turn = threading.Lock()
        self._knocking = threading.Lock()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._knocks: Counter[tuple[str, str, str]] = Counter()
        self._samples: list[tuple[Ticket, Verdict]] = []
        self._kept = 0

    def judge(self, tickets: Sequence[Ticket], now: datetime) -> list[Verdict]:
        """One verdict a ticket at the door, in order."""
        with self._turn:
            return [self._judged(ticket, now) for ticket in tickets]

    def judge_held(self, tickets: Sequence[Ticket]) -> list[Verdict]:
        """The same for tickets of the past, by what they say."""
        with self._turn:
            return [self._noted(ticket, self._text.judge_held(ticket)) for ticket in tickets]

    def knock(self, caller: Caller, now: datetime) -> Verdict:
        """Whether a request may come in at all."""
        if self._trusted.address(caller.address):
            return ACCEPT
        with self._knocking:
            pace = self._paced(self._callers, _caller_name(caller), now.timestamp())
            if not pace.wait_s:
                return ACCEPT
            verdict = _throttled(pace, "requests")
            self._knocks["", verdict.action.value, verdict.code.value] += 1
            return verdict

    def renew(self, model: ContentModel) -> None:
        """Judges by another model from now on; what is remembered stays."""
        with self._turn:
            self._text.renew(model)

    def flush(self, tally: Tally, now: datetime) -> None:
        """Hands over what was counted since the last time; keeps it if the tally is away.

        Raises:
            LedgerUnavailable: nothing was written.
        """
        with self._turn, self._knocking:
            counts, samples = self._counts + self._knocks, self._samples
            self._counts, self._knocks, self._samples = Counter(), Counter(), []
            self._kept = 0
        if not counts:
            return
        try:
            tally.counted(counts, samples, now)
        except BaseException:
            with self._turn:
                self._counts.update(counts)
            raise

    def _judged(self, ticket: Ticket, now: datetime) -> Verdict:
        if self._trusted.ticket(ticket):
            return self._noted(ticket, self._text.judge_held(ticket))
        if not ticket.customer:
            return self._noted(ticket, self._text.judge(ticket, now))
        name, now_s = f"{ticket.tenant}\x00{ticket.customer}", now.timestamp()
        pace = self._paced(self._senders, name, now_s)
        if pace.wait_s:
            return self._noted(ticket, _throttled(pace, "tickets"))
        verdict = self._text.judge(ticket, now)
        if heat := BLAME.get(verdict.code, 0.0):
            self._senders.blame(name, heat, now_s)
        if verdict.action is Action.ACCEPT and pace.level is Level.CHALLENGED:
            why = "its sender goes on after it was told to wait, so a person looks first"
            verdict = msgspec.structs.replace(verdict, action=Action.REVIEW, code=Code.CHALLENGED, reasons=(why,))
        return self._noted(ticket, verdict)

    def _paced(self, senders: Senders, name: str, now_s: float) -> Pace:
        pace = senders.pace(name, now_s)
        if self._rates is None or pace.wait_s or not pace.close:
            return pace
        if self._rates.hit(name, int(pace.limit), senders.window_s):
            return pace
        return senders.refused(name, now_s)

    def _noted(self, ticket: Ticket, verdict: Verdict) -> Verdict:
        if verdict.action is Action.REJECT and zlib.crc32(ticket.id.encode()) < self._sample * 2**32:
            why = (*verdict.reasons, "it is one of the few rejected tickets that a person checks")
            verdict = msgspec.structs.replace(verdict, action=Action.REVIEW, code=Code.SAMPLE, reasons=why)
        if verdict.action is Action.REJECT:
            self._kept += 1
            verdict = msgspec.structs.replace(verdict, kept=self._kept <= MOST_KEPT)
        self._counts[ticket.tenant, verdict.action.value, verdict.code.value] += 1
        if verdict.action is Action.THROTTLE and len(self._samples) < MOST_SAMPLES:
            self._samples.append((ticket, verdict))
        return verdict


def _throttled(pace: Pace, what: str) -> Verdict:
    blocked = pace.level is Level.BLOCKED
    reason = (
        "its sender is blocked for a while: it went on after it was told to wait"
        if blocked
        else f"more than {pace.limit:.0f} {what} from one sender in a short time"
    )
    return Verdict(
        action=Action.THROTTLE,
        code=Code.BLOCKED if blocked else Code.RATE,
        reasons=(reason,),
        scores={"level": float(pace.level), "count": round(pace.count, 1)},
        retry_after_s=pace.wait_s,
    )


def _caller_name(caller: Caller) -> str:
    """Who calls, for counting: an IPv6 sender has its network of 2 ** 64 addresses to itself."""
    address = caller.address
    if ":" in address:
        try:
            address = str(ipaddress.ip_network(f"{address}/64", strict=False))
        except ValueError:
            address = caller.address
    return "\x00".join((caller.key, address, caller.agent[:200], caller.path))
