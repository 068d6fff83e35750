"""The gate at every door of a running producer: what a sender sees, and what the ledger remembers."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
import yaml
from celery import Celery

from ops.migrate import migrate
from schemas.ledger import open_ledger, reading
from schemas.queues import INLET, TASK
from schemas.settings import load_settings
from schemas.tables import tickets, verdict_counts, verdicts
from tests.ground.redis_server import RedisServer, redis_program
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

SPAM = (
    "WINNER!! You have won a free prize of $1000 cash! Call now 09061701461 or visit www.win-prize.biz to claim. " * 2
)
FLOOD = "join the secret club today " * 40
HONEST = "I was charged twice for the blue mug in my last order, could you please look into it?"
VERSE = """Row, row, row your boat,
gently down the stream,
merrily, merrily, merrily, merrily,
life is but a dream.
Row, row, row your boat,
gently down the stream,
merrily, merrily, merrily, merrily,
life is but a dream."""

ANTI_SPAM = """
anti_spam:
  text_pattern:
    max_repeat_char: 50%
    min_entropy: 3.0
  behavior:
    max_qps: 100
    burst_window: 10s
"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    server = RedisServer(redis_program(), tmp_path_factory.mktemp("redis"), keeps=False)
    server.start()
    place = tmp_path_factory.mktemp("serving")
    url = f"sqlite:///{place}/ledger.db"
    migrate(url)
    settings = {
        "TICKETMILL_ANTI_SPAM_SAMPLE": "0",
        "TICKETMILL_ANTI_SPAM_BEHAVIOR_MAX_QPS": "2",
        "TICKETMILL_HTTP_PROXIES": "127.0.0.1",
    }
    serving = Serving(sys.executable, url, server.url, place, settings)
    serving.start()
    yield serving
    serving.close()
    server.close()


@pytest.fixture(scope="module")
def api(serving: Serving) -> Generator[httpx.Client]:
    with serving.client(new_key(serving.ledger_url)) as client:
        yield client


def post(api: httpx.Client, body: str, **fields: Any) -> httpx.Response:
    return api.post("/v1/tickets", json={"body": body} | fields)


def rows(serving: Serving, table: sa.Table) -> list[dict[str, Any]]:
    engine = open_ledger(serving.ledger_url)
    try:
        with reading(engine) as connection:
            return [dict(row) for row in connection.execute(sa.select(table)).mappings()]
    finally:
        engine.dispose()


def test_the_printed_settings_load_as_they_stand() -> None:
    asked = load_settings(yaml.safe_load(ANTI_SPAM), {"HOME": "/home/anna"}).anti_spam
    assert (asked.text_pattern.max_repeat_char, asked.text_pattern.min_entropy) == (0.5, 3.0)
    assert (asked.behavior.max_qps, asked.behavior.burst_window) == (100, 10)


class TestOverHttp:
    def test_an_honest_ticket_is_queued(self, api: httpx.Client) -> None:
        accepted = post(api, HONEST)
        assert (accepted.status_code, accepted.json()["state"]) == (202, "queued")

    @pytest.mark.parametrize(("body", "code"), [(SPAM, "spam"), (FLOOD, "shape")])
    def test_abuse_is_rejected_with_a_code_and_kept_with_its_reasons(
        self, serving: Serving, api: httpx.Client, body: str, code: str
    ) -> None:
        refused = post(api, body)
        assert refused.status_code == 422
        assert refused.json()["error"]["code"] == code
        view = api.get(refused.headers["location"]).json()
        assert (view["state"], view["reason"]) == ("rejected", refused.json()["error"]["message"])
        (kept,) = (row for row in rows(serving, verdicts) if row["ticket_id"] == view["id"])
        assert (kept["action"], kept["code"]) == ("reject", code)
        assert "spam" in kept["scores"]

    def test_repetitive_verse_is_never_rejected(self, api: httpx.Client) -> None:
        accepted = post(api, VERSE)
        assert accepted.status_code == 202
        assert accepted.json()["state"] in ("queued", "in_review")

    def test_one_line_of_many_is_judged_by_itself(self, api: httpx.Client) -> None:
        lines = "\n".join(f'{{"body": "{body}"}}' for body in (HONEST, FLOOD, HONEST))
        answer = api.post("/v1/tickets", content=lines, headers={"Content-Type": "application/x-ndjson"})
        states = [httpx.Response(200, text=line).json() for line in answer.text.splitlines()]
        assert [each["state"] for each in states] == ["queued", "rejected", "queued"]
        assert states[1]["error"]["code"] == "shape"

    def test_a_customer_that_comes_too_fast_is_told_when_to_come_back(self, api: httpx.Client) -> None:
        answers = [post(api, f"Where is order {number}?", customer="hasty") for number in range(25)]
        assert {each.status_code for each in answers[:20]} <= {202}
        (late,) = {each.status_code for each in answers[21:]}
        assert late == 429
        assert answers[-1].json()["error"]["code"] == "rate"
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert post(api, HONEST, customer="patient").status_code == 202

    def test_a_program_that_asks_too_fast_is_told_so_and_others_are_not(self, api: httpx.Client) -> None:
        crawler = {"X-Forwarded-For": "203.0.113.7", "User-Agent": "crawler"}
        codes = [api.get("/v1/tickets/none", headers=crawler).status_code for _ in range(30)]
        assert codes[:20] == [404] * 20
        assert codes[-1] == 429
        elsewhere = {"X-Forwarded-For": "203.0.113.8", "User-Agent": "crawler"}
        assert api.get("/v1/tickets/none", headers=elsewhere).status_code == 404

    def test_every_verdict_is_counted(self, serving: Serving, api: httpx.Client) -> None:
        def counted() -> dict[tuple[str, str, str], int]:
            return {(row["tenant"], row["action"], row["code"]): row["count"] for row in rows(serving, verdict_counts)}

        before = counted()
        for _ in range(3):
            post(api, FLOOD)
        flood = ("acme", "reject", "shape")
        wait_until(lambda: counted().get(flood, 0) >= before.get(flood, 0) + 3)


class TestElsewhere:
    def test_a_raw_celery_message_meets_the_same_gate(self, serving: Serving) -> None:
        celery = Celery(broker=serving.broker_url, set_as_current=False)
        bad = celery.send_task(TASK, queue=INLET, kwargs={"body": FLOOD})
        good = celery.send_task(TASK, queue=INLET, kwargs={"body": HONEST})
        celery.close()

        def states() -> dict[str, str]:
            return {row["id"]: row["state"] for row in rows(serving, tickets) if row["id"] in (bad.id, good.id)}

        wait_until(lambda: states() == {bad.id: "rejected", good.id: "queued"})

    def test_raw_messages_that_come_too_fast_are_taken_in_and_wait(self, serving: Serving) -> None:
        celery = Celery(broker=serving.broker_url, set_as_current=False)
        for number in range(25):
            kwargs = {"body": f"Where is order {number}?", "customer": "eager"}
            celery.send_task(TASK, queue=INLET, kwargs=kwargs)
        celery.close()

        def mine() -> list[dict[str, Any]]:
            return [row for row in rows(serving, tickets) if '"customer":"eager"' in row["document"]]

        wait_until(lambda: len(mine()) == 25)
        assert {row["state"] for row in mine()} == {"queued"}
        assert sum(row["due_at"] > row["received_at"] for row in mine()) == 5

    def test_the_backfill_is_judged_when_it_is_released_and_never_slowed(
        self, serving: Serving, api: httpx.Client
    ) -> None:
        sent = [post(api, HONEST, priority="backfill", customer="old").json()["id"] for _ in range(40)]
        bad = post(api, FLOOD, priority="backfill", customer="old")
        assert bad.status_code == 202
        assert bad.json()["state"] == "received"

        def states() -> dict[str, str]:
            return {row["id"]: row["state"] for row in rows(serving, tickets)}

        wait_until(lambda: states()[bad.json()["id"]] == "rejected")
        wait_until(lambda: {states()[each] for each in sent} == {"queued"})
