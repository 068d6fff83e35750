"""The HTTP API, as a client on the network meets it."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from jsonschema import Draft202012Validator

from ops.migrate import migrate
from schemas.ledger import open_ledger, reading
from schemas.tables import tickets
from tests.ground.redis_server import RedisServer, redis_program
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

LARGEST_BODY = 300_000


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
    settings = {"TICKETMILL_HTTP_LARGEST_BODY": str(LARGEST_BODY), "TICKETMILL_HTTP_MOST_LINES": "1500"}
    serving = Serving(sys.executable, url, redis_of_module.url, place, settings)
    serving.start()
    yield serving
    serving.close()


@pytest.fixture(scope="module")
def api(serving: Serving) -> Generator[httpx.Client]:
    with serving.client(new_key(serving.ledger_url, "acme")) as client:
        yield client


@pytest.fixture(scope="module")
def other(serving: Serving) -> Generator[httpx.Client]:
    with serving.client(new_key(serving.ledger_url, "globex")) as client:
        yield client


def post(api: httpx.Client, **fields: Any) -> httpx.Response:
    return api.post("/v1/tickets", json={"body": "My parcel is lost"} | fields)


def fault(response: httpx.Response) -> str:
    """The field at fault; every refusal has the same shape and no trace of our own code in it."""
    assert response.headers["content-type"] == "application/json"
    content = response.json()
    assert set(content) == {"error"}
    assert set(content["error"]) - {"code"} == {"field", "message"}
    assert "Traceback" not in response.text
    assert content["error"]["message"]
    return content["error"]["field"]


class TestOne:
    def test_a_new_ticket_is_accepted_and_can_be_read(self, api: httpx.Client) -> None:
        accepted = post(api, subject="Parcel", priority="high", metadata={"order": 7})
        assert accepted.status_code == 202
        assert accepted.json() | {"id": ""} == {"id": "", "state": "queued", "duplicate": False}
        view = api.get(accepted.headers["location"])
        assert view.status_code == 200
        assert view.json()["id"] == accepted.json()["id"]
        assert (view.json()["priority"], view.json()["job"], view.json()["answer"]) == ("high", "reply", None)

    def test_the_same_ticket_again_gives_the_first_one_back(self, api: httpx.Client) -> None:
        first = post(api, external_id="again-1")
        again = post(api, external_id="again-1", body="Other words")
        assert (first.status_code, again.status_code) == (202, 200)
        assert (again.json()["id"], again.json()["duplicate"]) == (first.json()["id"], True)

    def test_many_at_once_with_one_key_are_one_ticket(self, api: httpx.Client) -> None:
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: post(api, external_id="at-once"), range(48)))
        assert sorted({answer.status_code for answer in answers}) == [200, 202]
        assert sum(answer.status_code == 202 for answer in answers) == 1
        assert len({answer.json()["id"] for answer in answers}) == 1

    def test_backfill_is_received_and_queued_through_its_window(self, api: httpx.Client) -> None:
        accepted = post(api, priority="backfill").json()
        assert accepted["state"] == "received"
        wait_until(lambda: api.get(f"/v1/tickets/{accepted['id']}").json()["state"] == "queued")

    def test_what_is_accepted_is_published(self, api: httpx.Client, redis_of_module: RedisServer) -> None:
        from redis import Redis

        ticket_id = post(api, priority="urgent").json()["id"]
        with Redis.from_url(redis_of_module.url) as redis:
            wait_until(lambda: ticket_id.encode() in b"".join(redis.lrange("ticketmill.urgent", 0, -1)))


class TestMany:
    def send(self, api: httpx.Client, content: bytes | str) -> list[dict[str, Any]]:
        response = api.post("/v1/tickets", content=content, headers={"Content-Type": "application/x-ndjson"})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.text.splitlines()]

    def test_each_line_has_its_own_verdict(self, api: httpx.Client) -> None:
        good = '{"body": "Where is it?", "external_id": "many-1"}'
        lines = [good, "{", '{"body": 7}', "", '{"body": "x", "job": "nonsense"}', good, '{"body": "y", "colour": 1}']
        verdicts = self.send(api, "\n".join(lines))
        assert [verdict["line"] for verdict in verdicts] == [1, 2, 3, 5, 6, 7]
        assert [verdict.get("error", {}).get("field") for verdict in verdicts] == [
            None,
            "ticket",
            "body",
            "job",
            None,
            "colour",
        ]
        assert (verdicts[4]["id"], verdicts[4]["duplicate"]) == (verdicts[0]["id"], True)

    def test_a_thousand_in_one_request(self, api: httpx.Client) -> None:
        verdicts = self.send(api, "\r\n".join(json.dumps({"body": f"Ticket {n}"}) for n in range(1200)))
        assert len({verdict["id"] for verdict in verdicts}) == 1200

    def test_nothing_at_all_is_nothing(self, api: httpx.Client) -> None:
        assert self.send(api, "\n \n") == []

    def test_too_many_lines_are_refused_as_a_whole(self, api: httpx.Client) -> None:
        response = api.post(
            "/v1/tickets", content='{"body":"x"}\n' * 1501, headers={"Content-Type": "application/x-ndjson"}
        )
        assert (response.status_code, fault(response)) == (413, "body")


class TestWhose:
    @pytest.mark.parametrize(
        "header", ["", "Bearer", "Basic dG06", "Bearer sk_x", "Bearer tm_unknown", "tm_x", "Bearer tm_\xff"]
    )
    def test_no_key_no_answer(self, serving: Serving, header: str) -> None:
        headers = {"Authorization": header.encode("latin-1")} if header else {}
        for response in (
            httpx.post(f"{serving.url}/v1/tickets", json={"body": "x"}, headers=headers),
            httpx.get(f"{serving.url}/v1/tickets/x", headers=headers),
            httpx.get(f"{serving.url}/v1/tickets?external_id=1", headers=headers),
        ):
            assert (response.status_code, fault(response)) == (401, "Authorization")
            assert response.headers["www-authenticate"] == "Bearer"

    def test_another_tenants_ticket_is_not_there(self, api: httpx.Client, other: httpx.Client) -> None:
        ticket_id = post(api, external_id="ours").json()["id"]
        response = other.get(f"/v1/tickets/{ticket_id}")
        assert (response.status_code, fault(response)) == (404, "id")
        assert response.text == other.get("/v1/tickets/none").text
        assert other.get("/v1/tickets", params={"external_id": "ours"}).json() == {"tickets": []}
        assert post(other, external_id="ours").status_code == 202

    def test_a_tenant_cannot_be_claimed(self, api: httpx.Client) -> None:
        response = post(api, tenant="globex")
        assert (response.status_code, fault(response)) == (422, "tenant")


class TestFind:
    def test_by_external_id_and_source(self, api: httpx.Client) -> None:
        first = post(api, external_id="find", source="mail").json()
        second = post(api, external_id="find", source="mail", revision="2").json()
        found = api.get("/v1/tickets", params={"external_id": "find", "source": "mail"}).json()["tickets"]
        assert [each["id"] for each in found] == [second["id"], first["id"]]
        assert api.get("/v1/tickets", params={"external_id": "find", "source": "web"}).json() == {"tickets": []}

    @pytest.mark.parametrize(
        ("query", "field"), [("", "external_id"), ("?external_id=", "external_id"), ("?external_id=1&page=2", "page")]
    )
    def test_a_question_that_is_none(self, api: httpx.Client, query: str, field: str) -> None:
        response = api.get(f"/v1/tickets{query}")
        assert (response.status_code, fault(response)) == (422, field)


class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "status", "field"),
        [
            (b"", 400, "ticket"),
            (b"   ", 400, "ticket"),
            (b"{", 400, "ticket"),
            (b"null", 400, "ticket"),
            (b"[]", 400, "ticket"),
            (b'"text"', 400, "ticket"),
            (b"{}", 422, "body"),
            (b'{"body": ""}', 422, "body"),
            (b'{"body": " \\n\\t"}', 422, "body"),
            (b'{"body": null}', 422, "body"),
            (b'{"body": ["x"]}', 422, "body"),
            (b'{"body": "a\\u0000b"}', 422, "body"),
            (b'{"body": "x", "subject": "\\u0000"}', 422, "subject"),
            (b'{"body": "\\ud800"}', 422, "body"),
            (b'{"body": "\\ud800", "body": "x"}', 400, "ticket"),
            (b'{"body": "x", "customer": "\\udfff"}', 422, "customer"),
            (b'{"body": "\xff"}', 400, "ticket"),
            (b'{"body": "x", "priority": "soon"}', 422, "priority"),
            (b'{"body": "x", "priority": 1}', 422, "priority"),
            (b'{"body": "x", "external_id": 7}', 422, "external_id"),
            (b'{"body": "x", "external_id": "a\\nb"}', 422, "external_id"),
            (b'{"body": "x", "deadline": "2026-01-01"}', 422, "deadline"),
            (b'{"body": "x", "metadata": {"a": {"b": 1}}}', 422, "metadata"),
            (b'{"body": "x", "metadata": {"a": 1e999}}', 422, "metadata"),
            (b'{"body": "x", "colour": "red"}', 422, "colour"),
            (b'{"body": "x", "job": "nonsense"}', 422, "job"),
            (b'{"body": "x", "job": "../etc"}', 422, "job"),
            (b'{"body": "' + b"x" * 100_001 + b'"}', 422, "body"),
            (b'{"body": "x", "metadata": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}", 422, "metadata"),
            (b"[" * 100_000, 400, "ticket"),
            (b'{"a":' * 40_000, 422, "a"),
            (b'{"body": "x", "metadata": [' + b"[" * 100_000, 422, "metadata"),
        ],
        ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else str(value),
    )
    def test_names_the_field(self, api: httpx.Client, content: bytes, status: int, field: str) -> None:
        response = api.post("/v1/tickets", content=content, headers={"Content-Type": "application/json"})
        assert (response.status_code, fault(response)) == (status, field), response.text

    @pytest.mark.parametrize("place", ["body", "subject", "customer", "external_id", "metadata"])
    def test_hostile_strings_are_refused_by_name_or_kept_whole(
        self, serving: Serving, api: httpx.Client, real_tickets: Callable[..., list[dict[str, Any]]], place: str
    ) -> None:
        texts: list[str] = [row["text"] for row in real_tickets("edge_strings")]
        sent = [_with(place, text) for text in texts]
        content = b"\n".join(json.dumps(each).encode() for each in sent)
        response = api.post("/v1/tickets", content=content, headers={"Content-Type": "application/x-ndjson"})
        verdicts = [json.loads(line) for line in response.text.splitlines()]
        assert len(verdicts) == len(texts)
        kept = _documents(serving.ledger_url)
        taken = 0
        for each, verdict in zip(sent, verdicts, strict=True):
            if "id" in verdict:  # taken in, whatever the gate made of it
                taken += 1
                assert kept[verdict["id"]][place] == each[place]
            else:
                assert verdict["error"]["field"].partition(".")[0] == place, (each, verdict)
        assert taken > 300

    @pytest.mark.parametrize("number", range(0, 500, 60))
    def test_hostile_strings_one_by_one(
        self, api: httpx.Client, real_tickets: Callable[..., list[dict[str, Any]]], number: int
    ) -> None:
        for row in real_tickets("edge_strings")[number : number + 10]:
            response = api.post("/v1/tickets", json={"body": row["text"]})
            assert response.status_code in (202, 422)
            if response.status_code == 422:
                assert fault(response) == ("ticket" if "location" in response.headers else "body")

    def test_a_byte_order_mark_is_no_fault(self, api: httpx.Client) -> None:
        content = b'\xef\xbb\xbf{"body": "x"}'
        assert api.post("/v1/tickets", content=content, headers={"Content-Type": "application/json"}).status_code == 202

    @pytest.mark.parametrize(
        "kind", ["", "text/plain", "application/xml", "application/json; charset=latin-1", "multipart/form-data"]
    )
    def test_another_kind_of_content(self, api: httpx.Client, kind: str) -> None:
        response = api.post("/v1/tickets", content=b'{"body": "x"}', headers={"Content-Type": kind})
        assert (response.status_code, fault(response)) == (415, "Content-Type")

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/", 404),
            ("GET", "/v2/tickets", 404),
            ("GET", "/v1/tickets/a/b", 404),
            ("GET", "/v1/tickets/", 404),
            ("DELETE", "/v1/tickets", 405),
            ("PUT", "/v1/tickets/x", 405),
            ("POST", "/healthz", 405),
        ],
    )
    def test_nothing_there(self, api: httpx.Client, method: str, path: str, status: int) -> None:
        response = api.request(method, path)
        assert response.status_code == status
        assert fault(response) in ("path", "method")

    def test_too_large_is_refused_before_it_is_read(self, serving: Serving, api: httpx.Client) -> None:
        key = api.headers["authorization"]
        with socket.create_connection(("127.0.0.1", serving.port), timeout=10) as line:
            line.sendall(
                f"POST /v1/tickets HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {LARGEST_BODY + 1}\r\n\r\n".encode()
            )
            assert line.recv(100).startswith(b"HTTP/1.1 413 ")

    def test_too_large_is_refused_while_it_is_read(self, api: httpx.Client) -> None:
        def chunks() -> Generator[bytes]:
            for _ in range(40):
                yield b" " * 10_000

        response = api.post("/v1/tickets", content=chunks(), headers={"Content-Type": "application/json"})
        assert (response.status_code, fault(response)) == (413, "body")

    def test_no_length_at_all(self, serving: Serving, api: httpx.Client) -> None:
        key = api.headers["authorization"]
        with socket.create_connection(("127.0.0.1", serving.port), timeout=10) as line:
            line.sendall(
                f"POST /v1/tickets HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n"
                "Content-Type: application/json\r\n\r\n".encode()
            )
            assert line.recv(100).startswith(b"HTTP/1.1 411 ")

    @pytest.mark.parametrize(
        "raw", [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nA: " + b"x" * 200_000]
    )
    def test_what_is_no_http_does_no_harm(self, serving: Serving, raw: bytes) -> None:
        with socket.create_connection(("127.0.0.1", serving.port), timeout=10) as line:
            try:
                line.sendall(raw)
                line.shutdown(socket.SHUT_WR)
                line.recv(1000)
            except OSError:
                pass
        assert serving.answers()


class TestAbout:
    def test_it_says_that_it_lives_and_is_ready(self, serving: Serving) -> None:
        assert httpx.get(f"{serving.url}/healthz").json() == {"status": "ok"}
        assert httpx.get(f"{serving.url}/readyz").json() == {"status": "ready", "ledger": "", "broker": ""}

    def test_its_document_describes_what_it_answers(self, serving: Serving, api: httpx.Client) -> None:
        document = httpx.get(f"{serving.url}/openapi.json").json()
        schemas = document["components"]["schemas"]

        def check(name: str, value: Any) -> None:
            Draft202012Validator(
                {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
            ).validate(value)

        accepted = post(api, external_id="document")
        check("Accepted", accepted.json())
        check("TicketView", api.get(accepted.headers["location"]).json())
        check("Refusal", api.get("/v1/tickets/none").json())
        check("NewTicket", {"body": "x", "priority": "low"})
        assert "additionalProperties" in schemas["NewTicket"]


def _with(place: str, text: str) -> dict[str, Any]:
    if place == "body":
        return {"body": text}
    return {"body": "x", place: {text[:100]: text} if place == "metadata" else text}


def _documents(ledger_url: str) -> dict[str, dict[str, Any]]:
    engine = open_ledger(ledger_url)
    with reading(engine) as connection:
        rows = connection.execute(sa.select(tickets.c.id, tickets.c.document)).all()
    engine.dispose()
    return {row.id: json.loads(row.document) for row in rows}
