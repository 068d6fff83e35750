"""The review API, as the page and other programs meet it."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Generator

import httpx
import pytest

from ops.migrate import migrate
from schemas.ledger import open_ledger
from schemas.review import Role
from schemas.ticket import new_ticket_from
from tests.ground.redis_server import RedisServer, redis_program
from tests.ground.reviewing import person, send
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

OURS = {"X-Ticketmill-Review": "1"}


@pytest.fixture(scope="module")
def redis_of_module(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    server = RedisServer(redis_program(), tmp_path_factory.mktemp("redis"), keeps=False)
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def serving(redis_of_module: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    place = tmp_path_factory.mktemp("serving")
    url = f"sqlite:///{place}/ledger.db"
    migrate(url)
    settings = {"TICKETMILL_REVIEW_UNDO": "100ms"}
    serving = Serving(sys.executable, url, redis_of_module.url, place, settings)
    serving.start()
    yield serving
    serving.close()


class Reviewer:
    """Somebody with a key, at the API."""

    def __init__(self, serving: Serving, label: str, tenant: str = "acme", role: Role = Role.REVIEWER) -> None:
        self.engine = open_ledger(serving.ledger_url)
        self.key = person(self.engine, label, tenant, role)[1]
        self.api = serving.client(self.key)
        self.bare = httpx.Client(base_url=serving.url, timeout=30)

    def send(self, *bodies: str, tenant: str = "acme", **fields: str) -> list[str]:
        return send(self.engine, *(new_ticket_from({"body": body, **fields}) for body in bodies), tenant=tenant)

    def order(self, step: str, *ids: str, **more: object) -> httpx.Response:
        return self.api.post("/v1/reviews", json={"step": step, "tickets": list(ids), **more})

    def sign_in(self, key: str | None = None, headers: dict[str, str] = OURS) -> httpx.Response:
        return self.bare.post("/v1/session", json={"key": key or self.key}, headers=headers)

    def close(self) -> None:
        self.api.close()
        self.bare.close()
        self.engine.dispose()


@pytest.fixture
def ana(serving: Serving) -> Generator[Reviewer]:
    reviewer = Reviewer(serving, "Ana")
    yield reviewer
    reviewer.close()


def fault(response: httpx.Response) -> str:
    return response.json()["error"]["field"]


def test_an_accepted_ticket_goes_on_its_queue(ana: Reviewer, redis_of_module: RedisServer) -> None:
    from redis import Redis

    (ticket,) = ana.send("O rose, o rose", priority="high")
    assert ticket in [item["id"] for item in ana.api.get("/v1/reviews", params={"most": 200}).json()["items"]]
    assert ana.order("claim", ticket).json() == {"done": [ticket], "refused": []}
    assert ana.order("accept", ticket, reason="creative").json()["done"] == [ticket]
    with Redis.from_url(redis_of_module.url) as redis:
        wait_until(lambda: ticket.encode() in b"".join(redis.lrange("ticketmill.high", 0, -1)))
    sheet = ana.api.get(f"/v1/reviews/{ticket}").json()
    assert [change["after"] for change in sheet["history"]] == ["in_review", "queued"]


def test_a_song_that_the_gate_stops_comes_to_a_person_and_goes_on_as_it_was_sent(
    serving: Serving, ana: Reviewer
) -> None:
    verse = "Row, row, row the cart,\n" * 3 + "home, home, home again,\n"
    with serving.client(new_key(serving.ledger_url)) as sender:
        sent = sender.post("/v1/tickets", json={"body": verse * 2, "priority": "low"}).json()
        assert sent["state"] == "in_review"
        sheet = ana.api.get(f"/v1/reviews/{sent['id']}").json()
        assert "repeats" in sheet["item"]["why"]
        assert sheet["scores"]["creative"] > 0.9
        ana.order("accept", sent["id"], reason="creative")
        seen = sender.get(f"/v1/tickets/{sent['id']}").json()
        assert (seen["state"], seen["priority"]) == ("queued", "low")


def test_every_decision_can_be_had_as_csv_in_which_nothing_is_a_formula(ana: Reviewer) -> None:
    (ticket,) = ana.send("Text", external_id="=HYPERLINK(evil)")
    ana.order("reject", ticket, reason="spam", note="+1 for cmd|' /C calc'!A0")
    response = ana.api.get("/v1/reviews.csv")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    (row,) = [row for row in csv.DictReader(io.StringIO(response.text)) if row["ticket"] == ticket]
    assert (row["external_id"], row["note"]) == ("'=HYPERLINK(evil)", "'+1 for cmd|' /C calc'!A0")
    assert (row["reviewer"], row["step"], row["reason"], row["undone"]) == ("Ana", "reject", "spam", "")


class TestOrders:
    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ("{", "ticket"),
            ('{"step": "dance"}', "step"),
            ('{"step": "claim"}', "tickets"),
            ('{"step": "reject", "tickets": ["x"]}', "reason"),
            ('{"step": "accept", "tickets": ["x"], "colour": 1}', "colour"),
            ('{"step": "accept", "tickets": ["x"], "edit": {"body": ""}}', "edit.body"),
        ],
    )
    def test_what_is_wrong_is_named(self, ana: Reviewer, body: str, field: str) -> None:
        response = ana.api.post("/v1/reviews", content=body, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 422)
        assert fault(response) == field

    @pytest.mark.parametrize("wanted", [{"lane": "best"}, {"most": 0}, {"most": "x"}, {"color": "red"}])
    def test_a_list_that_is_asked_wrongly_says_so(self, ana: Reviewer, wanted: dict[str, object]) -> None:
        response = ana.api.get("/v1/reviews", params=wanted)
        assert (response.status_code, fault(response)) == (422, next(iter(wanted)))


class TestWho:
    def test_a_senders_key_reviews_nothing_and_a_reviewers_sends_nothing(self, serving: Serving, ana: Reviewer) -> None:
        with serving.client(new_key(serving.ledger_url)) as sender:
            for response in (sender.get("/v1/reviews"), sender.post("/v1/reviews", json={"step": "undo"})):
                assert (response.status_code, fault(response)) == (403, "key")
        assert ana.api.post("/v1/tickets", json={"body": "x"}).status_code == 401
        assert ana.bare.get("/v1/reviews").status_code == 401

    def test_another_tenants_reviewer_sees_nothing_and_an_operator_all(self, serving: Serving, ana: Reviewer) -> None:
        (ticket,) = ana.send("Text")
        other = Reviewer(serving, "Zoe", tenant="globex")
        operator = Reviewer(serving, "Op", tenant="default", role=Role.OPERATOR)
        try:
            assert other.api.get("/v1/reviews").json()["items"] == []
            assert other.api.get(f"/v1/reviews/{ticket}").status_code == 404
            assert other.order("accept", ticket).json()["refused"][0]["why"] == "there is no such ticket"
            assert len(other.api.get("/v1/reviews.csv").text.splitlines()) == 1
            assert operator.order("accept", ticket).json()["done"] == [ticket]
            assert ticket in operator.api.get("/v1/reviews.csv").text
            assert operator.api.post("/v1/tickets", json={"body": "x"}).status_code == 202
        finally:
            other.close()
            operator.close()


class TestSession:
    def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_is_kept_as_a_hash(self, ana: Reviewer) -> None:
        response = ana.sign_in()
        assert response.json() | {"id": ""} == {"id": "", "tenant": "acme", "label": "Ana", "role": "reviewer"}
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert ana.key not in cookie
        with ana.engine.connect() as connection:
            kept = connection.exec_driver_sql("SELECT group_concat(digest) FROM sessions").scalar_one()
        assert ana.bare.cookies["ticketmill_session"] not in kept
        assert ana.bare.get("/v1/reviews").status_code == 200

    def test_a_request_that_another_site_could_make_changes_nothing(self, serving: Serving, ana: Reviewer) -> None:
        ana.sign_in()
        (ticket,) = ana.send("Text")
        order = {"step": "accept", "tickets": [ticket]}
        assert ana.bare.post("/v1/reviews", json=order).status_code == 403
        elsewhere = OURS | {"Origin": "https://elsewhere.example"}
        assert ana.bare.post("/v1/reviews", json=order, headers=elsewhere).status_code == 403
        assert ana.bare.post("/v1/reviews", json=order, headers=OURS | {"Origin": "null"}).status_code == 403
        assert ana.sign_in(headers={}).status_code == 403
        assert ana.bare.delete("/v1/session").status_code == 403
        done = ana.bare.post("/v1/reviews", json=order, headers=OURS | {"Origin": serving.url})
        assert done.json()["done"] == [ticket]

    def test_signing_out_ends_it(self, ana: Reviewer) -> None:
        ana.sign_in()
        token = ana.bare.cookies["ticketmill_session"]
        assert ana.bare.delete("/v1/session", headers=OURS).status_code == 204
        again = ana.bare.get("/v1/session", headers={"Cookie": f"ticketmill_session={token}"})
        assert (again.status_code, fault(again)) == (401, "session")

    def test_a_senders_key_cannot_sign_in(self, serving: Serving, ana: Reviewer) -> None:
        assert ana.sign_in(new_key(serving.ledger_url)).status_code == 403

    def test_who_tries_many_keys_has_to_wait(
        self, redis_of_module: RedisServer, serving: Serving, ana: Reviewer, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        place = tmp_path_factory.mktemp("guarded")
        guarded = Serving(sys.executable, serving.ledger_url, redis_of_module.url, place)
        guarded.start()
        try:
            with httpx.Client(base_url=guarded.url, headers=OURS, timeout=30) as client:
                tried = [client.post("/v1/session", json={"key": f"tm_{n}"}) for n in range(12)]
                assert [each.status_code for each in tried] == [401] * 10 + [429] * 2
                assert 0 < int(tried[-1].headers["retry-after"]) <= 60
                assert client.post("/v1/session", json={"key": ana.key}).status_code == 429
        finally:
            guarded.close()


@pytest.mark.parametrize("path", ["/review", "/review.js", "/review.css"])
def test_the_pages_files_forbid_all_that_they_do_not_need(serving: Serving, path: str) -> None:
    response = httpx.get(serving.url + path)
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
