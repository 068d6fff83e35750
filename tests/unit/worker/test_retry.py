"""The retry matrix: how often, how late, and what then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.breaker import Breaker, Mode
from schemas.circuit_breaker import UpstreamBreakerSettings
from schemas.job import Job
from schemas.model import ModelSettings
from schemas.outcome import Again, Asked, Dead, Outcome, Parked, Retry
from schemas.retry_matrix import RETRY_MATRIX, RetryRow, Then
from schemas.ticket import Ticket
from workers.ending import MOST_RETURNS, Ending
from workers.holds import Attempt
from workers.policy.retry import LONGEST_WAIT_S, RetryBudget, Told, after_attempt
from workers.ports import Failed
from workers.upstreams import Upstreams

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
MODELS = {"far": ModelSettings(base_url="http://far", name="m"), "here": ModelSettings()}

chances = st.floats(0, 1, exclude_max=True)
rows = st.sampled_from(sorted(RETRY_MATRIX))
tolds = st.builds(
    Told,
    retry_after_s=st.none() | st.floats(0, 2 * LONGEST_WAIT_S),
    should_retry=st.sampled_from([None, None, True, False]),
)


def ending(chance: float = 0.5, models: dict[str, ModelSettings] = MODELS) -> Ending:
    upstreams = Upstreams(frozenset({"far"}), UpstreamBreakerSettings(failures=10**6), 1.0)
    return Ending(RETRY_MATRIX, models, upstreams, lambda ticket, _job: Asked(ticket.body), lambda: chance)


def attempt(tries: int, model: str = "far", instead_of: str = "") -> Attempt:
    ticket = Ticket(id="t", tenant="acme", received_at=NOW, body="Where is it?")
    return Attempt(ticket=ticket, job=Job(system="S", model=model), tries=tries, instead_of=instead_of)


def failed(error: str, told: Told | None = None) -> Failed:
    return Failed(ticket_id="t", error=error, why="it broke", told=told or Told())


@pytest.mark.parametrize(
    ("error", "delay_s", "retries", "then"),
    [("429", 0.2, 3, Then.CACHE), ("503", 0.5, 2, Then.SYNC), ("out_of_memory", 0, 0, Then.RECLAIM)],
)
def test_the_three_given_rows_are_the_default(error: str, delay_s: float, retries: int, then: Then) -> None:
    row = RETRY_MATRIX[error]
    assert (row.delay, row.retries, row.then) == (delay_s, retries, then)


@given(rows, st.integers(1, 120), tolds, chances)
def test_a_delay_never_undercuts_the_floor_or_what_the_upstream_asked(
    error: str, tries: int, told: Told, chance: float
) -> None:
    row = RETRY_MATRIX[error]
    found = after_attempt(row, tries, told, chance)
    if isinstance(found, Then):
        assert found is row.then
    else:
        assert found >= row.delay
        assert found >= (told.retry_after_s or 0)
        assert tries <= max(1, row.retries)


@given(rows, st.integers(0, 5))
def test_backoff_doubles_above_the_floor(error: str, tries: int) -> None:
    row = RetryRow(delay=RETRY_MATRIX[error].delay, retries=100, then=Then.DEAD)
    first, later = (after_attempt(row, n, Told(), 0.999) for n in (1, 1 + tries))
    assert isinstance(first, float)
    assert isinstance(later, float)
    assert later <= row.delay + 60
    assert later - row.delay == pytest.approx(min(60, (first - row.delay) * 2**tries))


def test_twenty_that_were_told_the_same_do_not_come_back_together() -> None:
    chance = Random(5)
    told = Told(retry_after_s=30)
    due_s = sorted(float(after_attempt(RETRY_MATRIX["429"], 1, told, chance.random())) for _ in range(20))  # type: ignore[arg-type]  # a delay
    assert due_s[0] >= 30
    assert due_s[-1] - due_s[0] > 8
    assert max(sum(s <= each < s + 1 for each in due_s) for s in due_s) <= 6


@given(st.data())
def test_whatever_fails_attempts_are_bounded_and_a_ticket_ends_in_one_state(data: st.DataObject) -> None:
    fallback = data.draw(st.booleans())
    models = {**MODELS, "far": ModelSettings(base_url="http://far", name="m", fallback="here" if fallback else "")}
    ends = ending(data.draw(chances), models)
    tries, alone = 0, False
    seen: list[Outcome] = []
    while not seen or not isinstance(seen[-1], Dead):
        tries += 1
        told = data.draw(tolds)
        model = "here" if alone else "far"
        outcome = ends.failed(failed(data.draw(rows), told), attempt(tries, model, "far" if alone else ""), NOW)
        seen.append(outcome)
        alone = isinstance(outcome, Again) and bool(outcome.alone)
        if isinstance(outcome, Retry | Again) and not alone:
            assert outcome.due_at >= NOW + timedelta(seconds=told.retry_after_s or 0)
        if isinstance(outcome, Parked):
            assert outcome.back_at > NOW
    most = max(row.retries for row in RETRY_MATRIX.values())
    assert len(seen) <= most + 1 + 2 * (MOST_RETURNS + 1) + 1


def test_what_another_try_cannot_mend_is_given_up_at_once() -> None:
    assert ending().failed(failed("context_overflow"), attempt(1), NOW) == Dead(
        "context_overflow: it broke (tried 1 times; mend the cause and queue it again)"
    )


def test_a_model_of_this_machine_is_never_parked_for() -> None:
    assert isinstance(ending().failed(failed("503"), attempt(3, "here"), NOW), Dead)


def test_the_retry_budget_keeps_retries_a_share_of_the_traffic() -> None:
    budget = RetryBudget(0.2)
    granted = 0
    for _ in range(1000):
        budget.first()
        granted += budget.retry()
    assert granted <= 0.2 * 1000 + RetryBudget.START
    assert granted >= 0.2 * 1000


class Fleet:
    """Two workers that share what a ledger would hold."""

    def __init__(self, failures: int = 3) -> None:
        settings = UpstreamBreakerSettings(failures=failures)
        self.workers = [Upstreams(frozenset({"far"}), settings, 0.2) for _ in range(2)]
        self.breaker = Breaker(name="upstream:far", since=NOW)

    def share(self) -> None:
        for worker in self.workers:
            for news in worker.news():
                self.breaker = news.change(self.breaker)
        for worker in self.workers:
            worker.learn({self.breaker.name: self.breaker})


def test_what_one_worker_is_told_cools_the_whole_fleet() -> None:
    fleet = Fleet()
    first, second = fleet.workers
    first.failed("far", "t1", "429", RETRY_MATRIX["429"], "429", Told(retry_after_s=20), NOW)
    fleet.share()
    held = [second.held("far", f"t{n}", 1, NOW, n / 20) for n in range(20)]
    until = [each.until for each in held if each and each.until]
    assert len(set(until)) == 20
    assert min(until) >= NOW + timedelta(seconds=20)
    assert second.held("far", "t2", 1, NOW + timedelta(seconds=20), 0.5) is None


def test_failures_in_a_row_open_the_breaker_for_everyone() -> None:
    fleet = Fleet()
    first, second = fleet.workers
    for n in range(3):
        assert second.held("far", "new", 1, NOW, 0.5) is None
        first.failed("far", f"t{n}", "503", RETRY_MATRIX["503"], "503: down", Told(), NOW)
        fleet.share()
    held = second.held("far", "new", 1, NOW, 0.5)
    assert held is not None
    assert held.until is None
    assert "503: down" in held.why


@pytest.mark.parametrize("error", ["context_overflow", "refused", "invalid_answer", "429"])
def test_what_is_not_the_upstreams_fault_does_not_open_it(error: str) -> None:
    fleet = Fleet()
    for n in range(20):
        fleet.workers[0].failed("far", f"t{n}", error, RETRY_MATRIX[error], "", Told(), NOW)
    fleet.share()
    assert fleet.breaker.mode is Mode.CLOSED


def test_success_between_failures_keeps_it_closed() -> None:
    fleet = Fleet()
    for n in range(20):
        fleet.workers[0].failed("far", f"t{n}", "503", RETRY_MATRIX["503"], "", Told(), NOW)
        fleet.workers[0].answered("far", f"u{n}", NOW)
    fleet.share()
    assert fleet.breaker.mode is Mode.CLOSED


@pytest.mark.parametrize("works", [True, False])
def test_the_probe_alone_passes_and_decides_for_all(works: bool) -> None:
    fleet = Fleet(failures=1)
    first, second = fleet.workers
    first.failed("far", "t", "500", RETRY_MATRIX["500"], "500", Told(), NOW)
    fleet.share()
    fleet.breaker = Breaker(name=fleet.breaker.name, since=NOW, mode=Mode.HALF_OPEN, probe="p", times=1, reason="500")
    fleet.share()
    assert first.held("far", "other", 1, NOW, 0.5) is not None
    assert second.held("far", "p", 1, NOW, 0.5) is None
    if works:
        second.answered("far", "p", NOW)
    else:
        second.failed("far", "p", "500", RETRY_MATRIX["500"], "500", Told(), NOW)
    fleet.share()
    assert fleet.breaker.mode is (Mode.CLOSED if works else Mode.OPEN)
    assert (first.held("far", "other", 1, NOW, 0.5) is None) == works
