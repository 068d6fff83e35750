"""What becomes of a ticket that left its slot, or that must not enter one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import msgspec

from schemas.job import Job
from schemas.model import ModelSettings
from schemas.outcome import Again, Answered, Asked, Dead, Outcome, Parked, Retry
from schemas.retry_matrix import RetryRow, Then
from schemas.ticket import Ticket
from workers.holds import Attempt
from workers.policy.retry import Told, after_attempt
from workers.ports import Failed
from workers.slots import Ended
from workers.upstreams import Held, Upstreams

KEPT_S = 2.0
"""A ticket that is due again sooner than this stays with its worker; anything later goes by way of the ledger."""

MOST_RETURNS = 3
"""Times that a ticket comes back from being parked after attempts of its own, and fails, before it is given up."""


class Ending:
    """Puts the end of a ticket's stay to the retry matrix.

    Args:
        asked: what a job asks of a ticket.
        chance: gives numbers in [0, 1).
    """

    def __init__(
        self,
        matrix: Mapping[str, RetryRow],
        models: Mapping[str, ModelSettings],
        upstreams: Upstreams,
        asked: Callable[[Ticket, Job], Asked],
        chance: Callable[[], float],
    ) -> None:
        self._matrix = matrix
        self._models = models
        self._upstreams = upstreams
        self._asked = asked
        self._chance = chance

    def before(self, attempt: Attempt, now: datetime) -> Outcome | None:
        """The outcome of a ticket that must not be asked about now, before it enters a slot."""
        model = attempt.job.model
        if attempt.instead_of or model not in self._upstreams:
            return None
        held = self._upstreams.held(model, attempt.ticket.id, attempt.tries, now, self._chance())
        return None if held is None else self._held(attempt, held, now)

    def of(self, ended: Ended, attempt: Attempt) -> Outcome:
        """The outcome of what the engine reported."""
        result, model = ended.result, attempt.job.model
        if isinstance(result, Failed):
            return self.failed(result, attempt, ended.ended_at)
        answer = msgspec.structs.replace(result.answer, batch=ended.batch, batch_size=ended.batch_size)
        if model not in self._upstreams:
            return Answered(answer)
        self._upstreams.answered(model, attempt.ticket.id, ended.ended_at)
        return Answered(answer, None if attempt.instead_of else self._asked(attempt.ticket, attempt.job))

    def failed(self, failed: Failed, attempt: Attempt, now: datetime) -> Outcome:
        """The outcome of a failure."""
        row, model, why = self._matrix[failed.error], attempt.job.model, " ".join(failed.why.split())
        reason = f"{failed.error}: {why}"
        if attempt.instead_of:
            return self._parked(f"{reason} (asked instead of {attempt.instead_of})", attempt, row, failed.told, now)
        if model in self._upstreams:
            probed = self._upstreams.probes(model, attempt.ticket.id)
            self._upstreams.failed(model, attempt.ticket.id, failed.error, row, reason, failed.told, now)
            if probed and not self._upstreams.works(model):
                return Parked(f"{reason} (it was to find out whether {model} works again)", model, now, tried=False)
        then = after_attempt(row, attempt.tries, failed.told, self._chance())
        if isinstance(then, float):
            if self._upstreams.may_retry(model):
                due_at = now + timedelta(seconds=then)
                return Again(due_at, reason) if then <= KEPT_S else Retry(due_at, reason)
            then, reason = row.then, f"{reason} (the retry budget is used up)"
        fallback = self._models[model].fallback
        if then is Then.SYNC and fallback:
            return Again(now, f"{reason} (asked of {fallback} next)", fallback)
        if then in (Then.DEAD, Then.RECLAIM):
            return self._given_up(reason, attempt)
        return self._parked(reason, attempt, row, failed.told, now, cached=then is Then.CACHE)

    def _parked(
        self, reason: str, attempt: Attempt, row: RetryRow, told: Told, now: datetime, *, cached: bool = False
    ) -> Outcome:
        model = attempt.instead_of or attempt.job.model
        returns = attempt.tries - row.retries - 1
        if model not in self._upstreams or returns > MOST_RETURNS:
            return self._given_up(reason, attempt)
        asked = self._asked(attempt.ticket, attempt.job) if cached else None
        return Parked(reason, model, self._upstreams.back_at(returns, told, now, self._chance()), asked)

    def _given_up(self, reason: str, attempt: Attempt) -> Dead:
        return Dead(f"{reason} (tried {attempt.tries} times; mend the cause and queue it again)")

    def _held(self, attempt: Attempt, held: Held, now: datetime) -> Outcome:
        if held.until is None:
            asked = self._asked(attempt.ticket, attempt.job)
            return Parked(held.why, attempt.job.model, now, asked, tried=False)
        soon = held.until <= now + timedelta(seconds=KEPT_S)
        return Again(held.until, held.why, tried=False) if soon else Retry(held.until, held.why, tried=False)
