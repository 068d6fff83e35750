"""What this worker knows of the remote models it asks, and what it decides from that. Pure: no I/O, ``now`` is given.

The breakers themselves are in the ledger. They come with every commit, so a ticket that has just begun meets a view
that is as young as its start; what this worker learns goes back with the next commit, as changes to be made there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import msgspec

from schemas.breaker import Breaker, Mode, closed, cooling, tripped
from schemas.circuit_breaker import UpstreamBreakerSettings
from schemas.retry_matrix import RetryRow
from workers.policy.retry import RetryBudget, Told

NOT_ITS_FAULT = frozenset({"429", "context_overflow", "refused", "invalid_answer"})
"""Failures that say nothing of an upstream's health."""

AT_ONCE = frozenset({"forbidden"})
"""Failures that every other ticket would meet too."""

PREFIX = "upstream:"


class News(msgspec.Struct, frozen=True):
    """A change to a breaker in the ledger."""

    name: str
    change: Callable[[Breaker], Breaker]


class Held(msgspec.Struct, frozen=True):
    """A ticket that must not be asked about now.

    Attributes:
        until: when it may be; None: once the upstream has recovered.
    """

    until: datetime | None
    why: str


class Upstreams:
    """See the module.

    Args:
        names: models with a ``base_url``.
        share: retries, as a share of first attempts.
    """

    def __init__(self, names: frozenset[str], settings: UpstreamBreakerSettings, share: float) -> None:
        self._names = names
        self._settings = settings
        self._breakers: Mapping[str, Breaker] = {}
        self._failed: dict[str, int] = {}
        self._limited: dict[str, int] = {}
        self._budgets = {name: RetryBudget(share) for name in names}
        self._news: list[News] = []

    def __contains__(self, model: str) -> bool:
        return model in self._names

    def learn(self, breakers: Mapping[str, Breaker]) -> None:
        """What the ledger says."""
        self._breakers = breakers

    def news(self) -> list[News]:
        """What the ledger should be told; told once."""
        news, self._news = self._news, []
        return news

    def tell(self, news: News) -> None:
        """Has the ledger told of another breaker too."""
        self._news.append(news)

    def held(self, model: str, ticket_id: str, tries: int, now: datetime, chance: float) -> Held | None:
        """Whether this ticket must wait, and until when. The one that holds the probe must not.

        Args:
            chance: in [0, 1): those who wait for the same moment do not come back in it together.
        """
        breaker = self._breakers.get(PREFIX + model)
        if breaker is not None and breaker.mode is not Mode.CLOSED and breaker.probe != ticket_id:
            return Held(None, f"upstream {model} is left alone: {breaker.reason}")
        if breaker is not None and breaker.cool_until is not None and breaker.cools(now):
            spread = max(1.0, (breaker.cool_until - now).total_seconds() / 2)
            until = breaker.cool_until + timedelta(seconds=chance * spread)
            return Held(until, f"upstream {model} has asked to be left alone for a while")
        if model in self._names and tries == 1:
            self._budgets[model].first()
        return None

    def answered(self, model: str, ticket_id: str, now: datetime) -> None:
        """It works. If this was the probe, it works for everyone again."""
        self._failed[model] = self._limited[model] = 0
        if self.probes(model, ticket_id):
            self._tell(model, lambda known: closed(known, now) if known.probe == ticket_id else known, now)

    def failed(
        self, model: str, ticket_id: str, error: str, row: RetryRow, why: str, told: Told, now: datetime
    ) -> None:
        """It does not: the fleet leaves it alone for as long as it asked for, or until a probe gets through."""
        if error == "429" or told.retry_after_s is not None:
            limited = self._limited[model] = self._limited.get(model, 0) + 1
            cool_s = told.retry_after_s
            if cool_s is None:
                cool_s = min(60.0, row.delay * 2 ** min(limited - 1, 20))
            until = now + timedelta(seconds=cool_s)
            self._tell(model, lambda known: cooling(known, until), now)
        probed = self.probes(model, ticket_id)
        if error in NOT_ITS_FAULT and not (probed and error == "429"):
            if probed:
                self.answered(model, ticket_id, now)
            return
        failed = self._failed[model] = self._failed.get(model, 0) + 1
        if probed or failed >= self._settings.failures or error in AT_ONCE:
            opens_for = timedelta(seconds=self._settings.open_for)
            longest = timedelta(seconds=self._settings.longest)
            self._failed[model] = 0
            self._tell(model, lambda known: tripped(known, why, opens_for, longest, now), now)

    def probes(self, model: str, ticket_id: str) -> bool:
        """This ticket is the one that finds out whether the upstream works again."""
        breaker = self._breakers.get(PREFIX + model)
        return breaker is not None and breaker.probe == ticket_id

    def works(self, model: str) -> bool:
        """Nothing is held against it."""
        breaker = self._breakers.get(PREFIX + model)
        return breaker is None or breaker.mode is Mode.CLOSED

    def back_at(self, returns: int, told: Told, now: datetime, chance: float) -> datetime:
        """When a ticket comes back that was parked so many times after attempts of its own: not before it was told to,
        and not together with all others."""
        wait_s = min(self._settings.longest, self._settings.open_for * 2 ** min(max(0, returns), 20))
        return now + timedelta(seconds=max(wait_s, told.retry_after_s or 0.0) * (1 + chance / 2))

    def may_retry(self, model: str) -> bool:
        """Takes a retry out of the upstream's budget; False if it is used up. A model of our own has none."""
        return model not in self._budgets or self._budgets[model].retry()

    def _tell(self, model: str, change: Callable[[Breaker], Breaker], now: datetime) -> None:
        name = PREFIX + model
        self._news.append(News(name, change))
        # Known here at once, and not only with the next commit.
        known = self._breakers.get(name) or Breaker(name=name, since=now)
        self._breakers = {**self._breakers, name: change(known)}
