"""Workers whose models are others': every row of the retry matrix against a server that fails as it is told to."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from producer.adapters.outbox import SqlOutbox
from schemas.breaker import Mode
from schemas.breakers import read_breakers
from schemas.ledger import reading
from tests.contract.tickets import row, rows_of
from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.upstream import Says, Upstream, answers, refuses
from tests.ground.waiting import wait_until
from workers.adapters.clock import utc_now

two_brokers = pytest.mark.parametrize("broker", ["redis", "rabbitmq"], indirect=True)

SCHEMA = {"type": "object", "properties": {"team": {"type": "string"}}, "required": ["team"]}
FITS = answers('{"team": "returns"}')
SLOW = Says(body=answers("Too late.").body, slow_s=2.0)
BUSY, GONE, BAD = refuses(429), refuses(503), Says(body=b'{"choices": [{"mess')


class Case(NamedTuple):
    """What an upstream says of one ticket, and what must follow.

    Attributes:
        attempts: the error that each attempt in the ledger names; empty for one that answered.
        state: where the ticket ends.
        calls: requests that the upstream saw.
        gaps_s: the least time between one request and the next.
        fallback: what the model's fallback says, if it has one.
    """

    says: Sequence[Says]
    attempts: Sequence[str]
    state: str
    calls: int
    gaps_s: Sequence[float] = ()
    fallback: Says | None = None
    schema: bool = False
    by: str = ""


OK = answers("It is on its way.")
CASES: dict[str, Case] = {
    "answered": Case([OK], [""], "answered", 1),
    "busy-twice": Case([BUSY, BUSY, OK], ["429", "429", ""], "answered", 3, [0.2, 0.2]),
    "busy-always": Case([BUSY], ["429"] * 4, "parked", 4, [0.2, 0.2, 0.2]),
    "busy-for-a-second": Case([refuses(429, retry_after="1"), OK], ["429", ""], "answered", 2, [1.0]),
    "busy-for-some-ms": Case([refuses(429, retry_after_ms="700"), OK], ["429", ""], "answered", 2, [0.7]),
    "gone-once": Case([GONE, OK], ["503", ""], "answered", 2, [0.5]),
    "gone-always": Case([GONE], ["503"] * 3, "parked", 3, [0.5, 0.5]),
    "gone-but-not-here": Case([GONE], ["503"] * 3 + [""], "answered", 3, [0.5, 0.5], OK, by="gone-but-not-here-fb"),
    "gone-here-too": Case([GONE], ["503"] * 4, "parked", 3, [0.5, 0.5], GONE),
    "told-not-to-return": Case([refuses(500, x_should_retry="false")], ["500"], "parked", 1),
    "told-to-return": Case([refuses(422, x_should_retry="true"), OK], ["refused", ""], "answered", 2),
    "waited-for-us": Case([refuses(408), OK], ["408", ""], "answered", 2, [0.5]),
    "bad-gateway": Case([refuses(502)], ["502"] * 4, "parked", 4, [0.5] * 3),
    "slow-gateway": Case([refuses(504), OK], ["504", ""], "answered", 2, [1.0]),
    "slow": Case([SLOW, OK], ["timeout", ""], "answered", 2, [0.5]),
    "reset": Case([Says(reset=True), OK], ["connection", ""], "answered", 2, [0.05]),
    "closed-in-mid-answer": Case([OK._replace(cut=9), OK], ["connection", ""], "answered", 2, [0.05]),
    "half-an-answer": Case([BAD, OK], ["bad_response", ""], "answered", 2, [0.05]),
    "no-completion": Case([Says(body=b'{"x": 1}')], ["bad_response"] * 3, "parked", 3, [0.05, 0.05]),
    "wrong-key": Case([refuses(401)], ["forbidden"], "parked", 1),
    "too-long": Case([Says(400, b'{"error": {"code": "context_length_exceeded"}}')], ["context_overflow"], "dead", 1),
    "refused": Case([refuses(422)], ["refused"], "dead", 1),
    "repaired": Case([answers("The team is returns."), FITS], [""], "answered", 2, schema=True),
    "never-fits": Case([answers('{"team": 5}')], ["invalid_answer"] * 2, "dead", 4, schema=True),
}


@pytest.fixture
def upstream() -> Generator[Upstream]:
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.fixture
def rig(broker: Broker, sqlite_ledger: TestLedger, process: StartProcess, tmp_path: Path) -> Generator[Rig]:
    rig = Rig(broker.url, sqlite_ledger, process, tmp_path)
    yield rig
    rig.close()


def written(rig: Rig, upstream: Upstream, models: dict[str, dict[str, Any]], **settings: Any) -> Path:
    """A settings file in which each job is called like its model."""
    names = {name: {"base_url": upstream.url, "name": name, "timeout": "1s"} | more for name, more in models.items()}
    jobs = {name: {"system": "Answer the customer.", "model": name} for name in models if not name.endswith("-fb")}
    quick = {kind: {"delay": "50ms", "retries": 2, "then": "sync"} for kind in ("connection", "bad_response")}
    quick["timeout"] = {"delay": "500ms", "retries": 2, "then": "sync"}
    for name, schema in settings.pop("schemas", {}).items():
        jobs[name]["answer_schema"] = schema
    names["default"] = {"base_url": upstream.url, "name": "default"}
    whole = {"models": names, "jobs": jobs, "retry": quick}
    return rig.config(**whole | settings)


@two_brokers
def test_every_row_of_the_matrix(rig: Rig, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_KEY", "s3cret")
    models: dict[str, dict[str, Any]] = {}
    for name, case in CASES.items():
        models[name] = {"key_env": "UPSTREAM_KEY"}
        upstream.script(name, case.says)
        if case.fallback is not None:
            models[f"{name}-fb"] = {}
            models[name]["fallback"] = f"{name}-fb"
            upstream.script(f"{name}-fb", [case.fallback])
    schemas = {name: SCHEMA for name, case in CASES.items() if case.schema}
    file = written(rig, upstream, models, schemas=schemas)
    stubs = {name: rig.send(1, job=name, body=f"Where is my parcel, {name}?")[0] for name in CASES}
    worker = rig.worker(app="workers.app", worker_engine="local", config=file)
    expected: dict[str, int] = {}
    for case in CASES.values():
        expected[case.state] = expected.get(case.state, 0) + 1
    outbox = SqlOutbox(rig.engine)

    def ended() -> bool:
        rig.publish(outbox.wake(100, utc_now()))  # what is due in more than two seconds goes by way of the ledger
        return rig.states() == expected

    wait_until(ended, 60, why=lambda: str(rig.states()))
    for name, case in CASES.items():
        now = row(rig.engine, stubs[name].id)
        attempts = rows_of(rig.engine, "attempts", stubs[name].id)
        found = [attempt["error"].partition(":")[0] for attempt in attempts]
        assert (name, now["state"], found) == (name, case.state, list(case.attempts))
        calls = upstream.calls[name]
        assert (name, len(calls)) == (name, case.calls)
        assert all(call.key == "Bearer s3cret" for call in calls)
        gaps_s = [later.at_s - call.at_s for call, later in pairwise(calls)]
        assert all(gap >= least for gap, least in zip(gaps_s, case.gaps_s, strict=False)), (name, gaps_s)
        if case.state == "answered":
            (answer,) = (json.loads(each["document"]) for each in rows_of(rig.engine, "answers", stubs[name].id))
            assert answer["model"] == (case.by or name)
            assert not case.schema or answer["data"] == {"team": "returns"}
        else:
            assert now["reason"].startswith(case.attempts[-1])
    assert "s3cret" not in worker.output()
    wait_until(lambda: rig.messages_left() == 0)


@two_brokers
def test_flower_sees_a_ticket_retried_and_then_succeeded(rig: Rig, upstream: Upstream) -> None:
    upstream.script("far", [GONE, OK])
    file = written(rig, upstream, {"far": {}})
    app = rig.celery()
    seen: list[str] = []

    def note(event: dict[str, Any]) -> None:
        seen.append(event["type"])

    with app.connection() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": note})
        with receiver.consumer_context() as (hearing, _, _):

            def heard(kind: str) -> bool:
                hearing.drain_events(timeout=20)
                return kind in seen

            rig.worker(app="workers.app", worker_engine="local", config=file)
            wait_until(lambda: heard("worker-online"), 60)
            rig.send(1, job="far")
            wait_until(lambda: heard("task-succeeded"), 60, why=lambda: str(seen))
    tasks = [kind.removeprefix("task-") for kind in seen if kind.startswith("task-")]
    assert tasks == ["received", "started", "retried", "received", "started", "succeeded"]


@two_brokers
def test_the_same_question_is_answered_from_the_cache_and_never_across_tenants(rig: Rig, upstream: Upstream) -> None:
    upstream.script("far", [OK])
    file = written(rig, upstream, {"far": {}}, retry={"429": {"delay": "10ms", "retries": 1, "then": "cache"}})
    rig.worker(app="workers.app", worker_engine="local", config=file)
    (first,) = rig.send(1, job="far", body="Where is my parcel?")
    rig.until({"answered": 1})
    upstream.script("far", [BUSY])
    (same,) = rig.send(1, job="far", body="Where  is my\nparcel?")
    rig.until({"answered": 2})
    (kept,) = (json.loads(each["document"]) for each in rows_of(rig.engine, "answers", same.id))
    assert (kept["text"], kept["cached_from"]) == ("It is on its way.", first.id)
    assert kept["cached_age_s"] >= 0
    rig.send(1, job="far", body="Where is my parcel?", tenant="other")
    rig.until({"answered": 2, "parked": 1})


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_a_question_much_like_it_is_answered_too_where_that_is_wanted(rig: Rig, upstream: Upstream) -> None:
    upstream.script("far", [OK])
    quick = {"429": {"delay": "10ms", "retries": 0, "then": "cache"}}
    rig.worker(
        app="workers.app",
        worker_engine="local",
        config=written(rig, upstream, {"far": {}}, retry=quick, nearest_answers="90%"),
    )
    (first,) = rig.send(1, job="far", body="Is there any way to cancel a transfer?")
    rig.until({"answered": 1})
    upstream.script("far", [BUSY])
    (alike,) = rig.send(1, job="far", body="How can I cancel a transfer?")
    rig.until({"answered": 2})
    (kept,) = (json.loads(each["document"]) for each in rows_of(rig.engine, "answers", alike.id))
    assert kept["cached_from"] == first.id
    assert 0.9 <= kept["likeness"] < 1
    rig.send(1, job="far", body="My card was stolen on holiday")
    rig.until({"answered": 2, "parked": 1}, 60)


@two_brokers
def test_a_dead_upstream_is_left_alone_and_everyone_is_answered_when_it_returns(rig: Rig, upstream: Upstream) -> None:
    upstream.script("far", [GONE])
    breaker = {"upstream": {"failures": 3, "open_for": "500ms", "longest": "1s"}}
    file = written(rig, upstream, {"far": {}}, circuit_breaker=breaker)
    stubs = rig.send(200, job="far")
    for _ in range(2):
        rig.worker(app="workers.app", worker_engine="local", config=file)
    rig.until({"parked": 200}, 60)
    asked = len(upstream.calls["far"])
    assert asked < 60  # what was in flight when it opened, and their retries
    outbox = SqlOutbox(rig.engine)

    def probed() -> bool:
        rig.publish(outbox.unpark(1000, utc_now()))
        with reading(rig.engine) as connection:
            return read_breakers(connection)["upstream:far"].times >= 2

    wait_until(probed, 30)  # a probe went out and failed
    rig.until({"parked": 200}, 30)
    assert len(upstream.calls["far"]) - asked <= 3
    upstream.script("far", [OK])

    def returned() -> bool:
        rig.publish(outbox.unpark(1000, utc_now()))
        return rig.states() == {"answered": 200}

    wait_until(returned, 60, why=lambda: str(rig.states()))
    with reading(rig.engine) as connection:
        assert read_breakers(connection)["upstream:far"].mode is Mode.CLOSED
    assert rig.answers() == len(stubs)
