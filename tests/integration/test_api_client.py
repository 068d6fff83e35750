"""The Python client, against a serving process and against servers that misbehave."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from producer.adapters.clock import utc_now
from producer.client import Client
from schemas.errors import NotAnswered, NotFound, Refused, SettingRefused, Unavailable
from schemas.ledger import Move, lock, move, writing
from schemas.states import State
from schemas.tables import answers
from schemas.ticket import NewTicket
from tests.ground.ledgers import TestLedger
from tests.ground.ports import free_port
from tests.ground.serving import Serving, new_key


@pytest.fixture
def client(sqlite_ledger: TestLedger, tmp_path: Path) -> Generator[Client]:
    """On a server whose broker is away: tickets are taken in all the same."""
    serving = Serving(sys.executable, sqlite_ledger.url, f"redis://127.0.0.1:{free_port()}/0", tmp_path)
    serving.start()
    with Client(serving.url, new_key(serving.ledger_url)) as opened:
        yield opened
    serving.close()


def test_sends_reads_and_waits(client: Client, sqlite_ledger: TestLedger) -> None:
    accepted = client.submit(body="My parcel is lost", external_id="a/b c", priority="high")
    assert (accepted.state, accepted.duplicate) == (State.QUEUED, False)
    assert client.submit(NewTicket(body="Other words", external_id="a/b c")).id == accepted.id
    assert client.get(accepted.id).priority == "high"
    assert [view.id for view in client.find("a/b c")] == [accepted.id]
    with pytest.raises(TimeoutError, match="is still queued"):
        client.wait(accepted.id, timeout_s=0.1)

    def settle() -> None:
        with writing(sqlite_ledger.engine) as connection:
            for state in (State.RUNNING, State.ANSWERED):
                move(connection, [Move(lock(connection, [accepted.id])[accepted.id], state)], utc_now())
            document = '{"text": "It is on its way", "model": "m"}'
            connection.execute(sa.insert(answers).values(ticket_id=accepted.id, at=utc_now(), document=document))

    settler = threading.Timer(0.2, settle)
    settler.start()
    assert client.wait(accepted.id, timeout_s=60).text == "It is on its way"
    settler.join()

    many = client.submit_many([{"body": f"Ticket {number}"} for number in range(1_050)] + [{"body": 7}, {"job": "x"}])
    verdicts = list(many)
    assert [verdict.line for verdict in verdicts] == list(range(1, 1_053))
    assert len({verdict.id for verdict in verdicts[:1_050]}) == 1_050
    faults = [verdict.error.field for verdict in verdicts if verdict.error is not None]
    assert faults == ["body", "body"]

    with pytest.raises(Refused, match=r"^job: there is no job 'none'"):
        client.submit(body="x", job="none")
    with pytest.raises(Refused, match=r"^body: is missing"):
        client.submit()
    for nowhere in ("none", "../healthz", "a/b", "\u2026"):
        with pytest.raises(NotFound):
            client.get(nowhere)


def test_a_ticket_that_was_given_up_says_why(client: Client, sqlite_ledger: TestLedger) -> None:
    accepted = client.submit(body="My parcel is lost")
    with writing(sqlite_ledger.engine) as connection:
        row = lock(connection, [accepted.id])[accepted.id]
        move(connection, [Move(row, State.DEAD, reason="its prompt is too long")], utc_now())
    with pytest.raises(NotAnswered, match="is dead: its prompt is too long"):
        client.wait(accepted.id, timeout_s=10)


Script = list[tuple[int, dict[str, str], str]]


@pytest.fixture
def scripted() -> Generator[Callable[[Script], Any]]:
    """A server that gives these answers, one a request, and notes what it was asked."""
    servers: list[ThreadingHTTPServer] = []

    def start(script: Script) -> Any:
        asked: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked.append(self.rfile.read(int(self.headers["content-length"])))
                status, headers, body = script[min(len(asked), len(script)) - 1]
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


AWAY = '{"error": {"field": "ledger", "message": "is away"}}'
TAKEN = '{"id": "t", "state": "queued", "duplicate": false}'


def test_asks_again_with_the_same_ticket(scripted: Callable[[Script], Any]) -> None:
    url, asked = scripted(
        [
            (503, {"Retry-After": "0"}, AWAY),
            (0, {}, ""),
            (429, {"Retry-After": "0"}, AWAY),
            (502, {}, "<html>Bad gateway</html>"),
            (202, {}, TAKEN),
        ]
    )
    with Client(url, "tm_x") as client:
        assert client.submit(body="x").id == "t"
    assert len(asked) == 5
    assert len(set(asked)) == 1
    assert json.loads(asked[0])["external_id"]


def test_sends_again_only_the_lines_that_were_put_off(scripted: Callable[[Script], Any]) -> None:
    away = '{"line": 2, "error": {"field": "ledger", "message": "is away"}, "retry_after_s": 0.0}'
    url, asked = scripted(
        [
            (200, {}, '{"line": 1, "id": "a", "state": "queued"}\n' + away),
            (200, {}, '{"line": 1, "id": "b", "state": "queued"}'),
        ]
    )
    with Client(url, "tm_x") as client:
        verdicts = list(client.submit_many([{"body": "one"}, {"body": "two"}]))
    assert [(verdict.line, verdict.id) for verdict in verdicts] == [(1, "a"), (2, "b")]
    assert [json.loads(line)["body"] for line in asked[1].splitlines()] == ["two"]


def test_gives_up_with_a_clear_word(scripted: Callable[[Script], Any]) -> None:
    url, _ = scripted([(503, {"Retry-After": "3600"}, AWAY)])
    with Client(url, "tm_x") as client, pytest.raises(Unavailable, match=r"server http://.*: is away. Is `ticketmill"):
        client.submit(body="x")
    nowhere = f"http://127.0.0.1:{free_port()}"
    with Client(nowhere, "tm_x", patience_s=0.2) as client, pytest.raises(Unavailable, match="refused"):
        client.submit(body="x")


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, '{"error": {"field": "Authorization", "message": "is no key of ours"}}', "Authorization: is no key"),
        (413, '{"error": {"field": "body", "message": "is too large"}}', "body: is too large"),
        (404, "<html>nginx</html>", "request: answered 404"),
    ],
)
def test_says_what_was_refused(scripted: Callable[[Script], Any], status: int, body: str, says: str) -> None:
    url, asked = scripted([(status, {}, body)])
    with Client(url, "tm_x") as client, pytest.raises(Refused, match=says):
        client.submit(body="x")
    assert len(asked) == 1


def test_a_key_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TICKETMILL_KEY", raising=False)
    with pytest.raises(SettingRefused, match="TICKETMILL_KEY"):
        Client("http://127.0.0.1:1")
    monkeypatch.setenv("TICKETMILL_KEY", "tm_x")
    Client().close()
