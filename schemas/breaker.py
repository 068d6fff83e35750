"""A circuit breaker as the whole fleet sees it. Pure: everything is given, ``now`` too.

::

    closed ──trip──► open ──its time is over, one probe──► half open ──it went well──► closed
                      ▲                                        │
                      └───────────── it failed: twice as long ─┘
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec


class Mode(StrEnum):
    """``half_open``: one probe, fleet-wide, is finding out whether what failed works again."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """One breaker.

    Attributes:
        name: what it guards, for instance ``upstream:default`` or ``cpu:HOST``.
        since: when it came into this mode.
        until: open: no probe before then. Half open: the probe has until then, or another may try. None while closed.
        probe: who holds the single probe; empty but in half open.
        times: how often in a row it opened; 0 once it has closed.
        reason: why it opened.
        cool_until: closed or not, nobody asks before then: what it guards said so itself.
    """

    name: str
    since: datetime
    mode: Mode = Mode.CLOSED
    until: datetime | None = None
    probe: str = ""
    times: int = 0
    reason: str = ""
    cool_until: datetime | None = None

    def lets_pass(self, now: datetime) -> bool:
        """Everyone may ask what it guards."""
        return self.mode is Mode.CLOSED and not self.cools(now)

    def cools(self, now: datetime) -> bool:
        """What it guards has asked to be left alone until later than now."""
        return self.cool_until is not None and now < self.cool_until

    def wants_probe(self, now: datetime) -> bool:
        """Nobody has the probe, or whoever had it has not come back, and it is time for one."""
        return self.mode is not Mode.CLOSED and not self.cools(now) and (self.until is None or now >= self.until)


def tripped(breaker: Breaker, reason: str, opens_for: timedelta, longest: timedelta, now: datetime) -> Breaker:
    """Open: for twice as long each time in a row, up to the longest. One that is open already stays as it is."""
    if breaker.mode is Mode.OPEN:
        return breaker
    lasts = min(longest, opens_for * 2 ** min(breaker.times, 20))
    return msgspec.structs.replace(
        breaker, mode=Mode.OPEN, since=now, until=now + lasts, probe="", times=breaker.times + 1, reason=reason
    )


def probing(breaker: Breaker, who: str, lasts: timedelta, now: datetime) -> Breaker:
    """Half open, with the probe in these hands, if it is time for one; else as it is."""
    if not breaker.wants_probe(now):
        return breaker
    since = breaker.since if breaker.mode is Mode.HALF_OPEN else now
    return msgspec.structs.replace(breaker, mode=Mode.HALF_OPEN, since=since, until=now + lasts, probe=who)


def closed(breaker: Breaker, now: datetime) -> Breaker:
    """Closed, and nothing is held against it any more."""
    return Breaker(name=breaker.name, since=now if breaker.mode is not Mode.CLOSED else breaker.since)


def cooling(breaker: Breaker, until: datetime) -> Breaker:
    """Nobody asks before then. A cool-down is made longer by a later one, never shorter."""
    if breaker.cool_until is not None and breaker.cool_until >= until:
        return breaker
    return msgspec.structs.replace(breaker, cool_until=until)
