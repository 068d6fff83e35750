"""The serving process killed in mid-request, brokers killed and emptied, ledgers away or full."""

from __future__ import annotations

import itertools
import socket
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from celery import Celery
from kombu.connection import Connection

from schemas.ledger import open_ledger, reading
from schemas.queues import INLET, QUEUES, TASK
from schemas.tables import tickets
from tests.ground.brokers import Broker
from tests.ground.ports import free_port
from tests.ground.process import Process
from tests.ground.redis_server import RedisServer
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

QUICK = {
    "TICKETMILL_RELAY_INTERVAL": "100ms",
    "TICKETMILL_RELAY_RECONCILE_INTERVAL": "200ms",
    "TICKETMILL_RELAY_LOST_AFTER": "1s",
}


@pytest.fixture(params=["sqlite-redis", "postgresql-rabbitmq"])
def serving(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Serving]:
    """Not started yet."""
    ledger, _, broker = request.param.partition("-")
    if ledger == "sqlite":
        ledger_url = request.getfixturevalue("sqlite_ledger").url
    else:
        ledger_url = request.getfixturevalue("postgresql_url")
    serving = Serving(sys.executable, ledger_url, request.getfixturevalue(broker).url, tmp_path, dict(QUICK))
    yield serving
    serving.close()


@pytest.fixture
def embedded(sqlite_ledger: Any, redis: RedisServer, tmp_path: Path) -> Generator[Serving]:
    """On SQLite and Redis, not started yet."""
    serving = Serving(sys.executable, sqlite_ledger.url, redis.url, tmp_path, dict(QUICK))
    yield serving
    serving.close()


def rows(ledger_url: str) -> list[dict[str, Any]]:
    engine = open_ledger(ledger_url)
    try:
        with reading(engine) as connection:
            return [dict(row) for row in connection.execute(sa.select(tickets)).mappings()]
    finally:
        engine.dispose()


def drained(broker_url: str) -> set[str]:
    """The tickets of every message that lies on the priority queues; takes the messages away."""
    found: set[str] = set()
    with Connection(broker_url) as connection, connection.channel() as channel:
        for queue in QUEUES:
            channel.queue_declare(queue, durable=True, auto_delete=False)
            while (message := channel.basic_get(queue, no_ack=True)) is not None:
                found.add(message.headers["id"])
    return found


class Crowd:
    """Senders that go on through everything, each with its own tickets, and repeat what was not answered."""

    def __init__(self, serving: Serving, key: str, senders: int = 6) -> None:
        self.acknowledged: dict[str, set[str]] = {}
        self._serving = serving
        self._key = key
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(senders)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _send(self, sender: int) -> None:
        with self._serving.client(self._key) as client:
            for number in itertools.count():
                if self._ends.is_set():
                    return
                fields = {"body": "My parcel is lost", "external_id": f"{sender}-{number}"}
                while not self._acknowledged(client, fields):
                    self._ends.wait(0.02)

    def _acknowledged(self, client: httpx.Client, fields: dict[str, str]) -> bool:
        try:
            response = client.post("/v1/tickets", json=fields)
        except httpx.HTTPError:
            return False
        if response.status_code == 503:
            return False
        assert response.status_code in (200, 202), response.text
        self.acknowledged.setdefault(fields["external_id"], set()).add(response.json()["id"])
        return True


def test_killed_in_mid_request_nothing_is_lost_and_repeats_are_one(serving: Serving) -> None:
    key = new_key(serving.ledger_url)
    serving.start()
    crowd = Crowd(serving, key)
    for _ in range(3):
        before = len(crowd.acknowledged)
        wait_until(lambda: len(crowd.acknowledged) > before + 40)  # noqa: B023  called at once
        assert serving.process is not None
        serving.process.kill()
        serving.start()
    crowd.end()
    kept = {row["external_id"]: row["id"] for row in rows(serving.ledger_url)}
    assert all(ids == {kept[external_id]} for external_id, ids in crowd.acknowledged.items())
    assert len(kept) == len(rows(serving.ledger_url))
    wait_until(lambda: all(row["published_at"] for row in rows(serving.ledger_url)))
    assert drained(serving.broker_url) == set(kept.values())


def test_told_to_end_it_finishes_what_is_in_flight(serving: Serving) -> None:
    key = new_key(serving.ledger_url)
    process = serving.start()
    crowd = Crowd(serving, key)
    wait_until(lambda: len(crowd.acknowledged) > 40)
    process.terminate()
    assert process.wait(60) == 0
    sent = len(rows(serving.ledger_url))
    assert "Traceback" not in process.output()
    serving.start()
    wait_until(lambda: len(crowd.acknowledged) > sent)
    crowd.end()
    kept = {row["external_id"]: row["id"] for row in rows(serving.ledger_url)}
    assert all(ids == {kept[external_id]} for external_id, ids in crowd.acknowledged.items())


def test_a_request_in_flight_at_the_end_is_answered(embedded: Serving) -> None:
    key = new_key(embedded.ledger_url)
    process = embedded.start()
    with socket.create_connection(("127.0.0.1", embedded.port), timeout=30) as line:
        body = b'{"body": "My parcel is lost"}'
        line.sendall(
            f"POST /v1/tickets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        line.sendall(body[:10])
        wait_until(lambda: embedded.answers())
        process.terminate()
        wait_until(lambda: not embedded.answers())
        line.sendall(body[10:])
        assert line.recv(100).startswith(b"HTTP/1.1 202 ")
    assert process.wait(60) == 0
    assert len(rows(embedded.ledger_url)) == 1


def test_a_redis_that_forgets_is_filled_again(sqlite_ledger: Any, forgetful_redis: RedisServer, tmp_path: Path) -> None:
    serving = Serving(sys.executable, sqlite_ledger.url, forgetful_redis.url, tmp_path, dict(QUICK))
    key = new_key(serving.ledger_url)
    serving.start()
    with serving.client(key) as client:
        content = b'{"body": "My parcel is lost"}\n' * 500
        client.post("/v1/tickets", content=content, headers={"Content-Type": "application/x-ndjson"})
    wait_until(lambda: all(row["published_at"] for row in rows(serving.ledger_url)))
    forgetful_redis.kill()
    forgetful_redis.start()
    refilled: set[str] = set()
    wait_until(lambda: len(refilled.update(drained(forgetful_redis.url)) or refilled) == 500, 60)
    serving.close()
    assert refilled == {row["id"] for row in rows(serving.ledger_url)}


def test_deleted_queues_are_filled_again(postgresql_url: str, rabbitmq: Broker, tmp_path: Path) -> None:
    serving = Serving(sys.executable, postgresql_url, rabbitmq.url, tmp_path, dict(QUICK))
    key = new_key(serving.ledger_url)
    serving.start()
    with serving.client(key) as client:
        content = b'{"body": "My parcel is lost"}\n' * 100
        client.post("/v1/tickets", content=content, headers={"Content-Type": "application/x-ndjson"})
    wait_until(lambda: all(row["published_at"] for row in rows(serving.ledger_url)))
    with Connection(rabbitmq.url) as connection, connection.channel() as channel:
        for queue in QUEUES:
            channel.queue_delete(queue)
    refilled: set[str] = set()
    wait_until(lambda: len(refilled.update(drained(rabbitmq.url)) or refilled) == 100, 60)
    serving.close()


def test_tickets_are_taken_in_while_the_broker_is_down(embedded: Serving, redis: RedisServer) -> None:
    key = new_key(embedded.ledger_url)
    embedded.start()
    redis.kill()
    with embedded.client(key) as client:
        sent = {client.post("/v1/tickets", json={"body": "My parcel is lost"}).json()["id"] for _ in range(50)}
        wait_until(lambda: "refused" in client.get("/readyz").json()["broker"])
        assert client.get("/readyz").status_code == 200
        redis.start()
        wait_until(lambda: all(row["published_at"] for row in rows(embedded.ledger_url)), 60)
        wait_until(lambda: client.get("/readyz").json()["broker"] == "")
    embedded.close()
    assert drained(redis.url) == sent


def test_a_broker_that_hangs_holds_no_request_up(embedded: Serving, redis: RedisServer) -> None:
    key = new_key(embedded.ledger_url)
    embedded.start()
    redis.pause()
    with embedded.client(key) as client:
        for _ in range(20):
            assert client.post("/v1/tickets", json={"body": "My parcel is lost"}).status_code == 202
    redis.resume()
    wait_until(lambda: all(row["published_at"] for row in rows(embedded.ledger_url)), 60)


def test_raw_messages_survive_a_kill(serving: Serving) -> None:
    serving.settings = QUICK | {"TICKETMILL_RELAY_CHUNK": "25"}
    celery = Celery(broker=serving.broker_url, set_as_current=False)
    sent = {celery.send_task(TASK, kwargs={"body": "My parcel is lost"}, queue=INLET).id for _ in range(300)}
    for _ in range(3):
        serving.launch()
        before = len(rows(serving.ledger_url))
        wait_until(lambda: len(rows(serving.ledger_url)) > before or len(rows(serving.ledger_url)) == 300)  # noqa: B023
        assert serving.process is not None
        serving.process.kill()
    serving.start()
    wait_until(lambda: len(rows(serving.ledger_url)) == 300)
    wait_until(lambda: all(row["published_at"] for row in rows(serving.ledger_url)))
    serving.close()
    celery.close()
    assert {row["id"] for row in rows(serving.ledger_url)} == sent
    assert drained(serving.broker_url) == sent


def test_a_ledger_that_is_away_is_said_so_and_comes_back(
    postgresql_ledger: Any, redis: RedisServer, tmp_path: Path
) -> None:
    serving = Serving(sys.executable, postgresql_ledger.url, redis.url, tmp_path, dict(QUICK))
    key = new_key(serving.ledger_url)
    serving.start()
    with serving.client(key) as client:
        assert client.post("/v1/tickets", json={"body": "before"}).status_code == 202
        postgresql_ledger.server.kill()
        response = client.post("/v1/tickets", json={"body": "during"})
        assert (response.status_code, response.json()["error"]["field"]) == (503, "ledger")
        assert response.headers["retry-after"].isdigit()
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        postgresql_ledger.server.start()
        wait_until(lambda: client.post("/v1/tickets", json={"body": "after"}).status_code == 202)
    assert "Traceback" not in serving.process.output() if serving.process else False
    serving.close()


def test_a_full_disk_is_a_503_and_what_was_acknowledged_is_kept(
    embedded: Serving, process: Callable[..., Process]
) -> None:
    key = new_key(embedded.ledger_url)
    embedded.settings = {**QUICK, "TICKETMILL_HTTP_LARGEST_BODY": "20MB", "TICKETMILL_ANTI_SPAM_ENABLED": "false"}
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000));"
        "from producer.serve import main; sys.exit(main())"
    )
    environment = {
        "TICKETMILL_LEDGER_URL": embedded.ledger_url,
        "TICKETMILL_BROKER_URL": embedded.broker_url,
        "TICKETMILL_HTTP_PORT": str(embedded.port),
        **embedded.settings,
    }
    (embedded.place / "full_disk.py").write_text(code)
    child = process("full_disk", env=environment | {"PYTHONPATH": f"{Path(__file__).parents[2]}:{embedded.place}"})
    wait_until(embedded.answers, 60, why=child.output)
    acknowledged: set[str] = set()
    with embedded.client(key) as client:

        def full() -> bool:
            response = client.post("/v1/tickets", json={"body": "x" * 90_000})
            if response.status_code == 503:
                assert response.json()["error"]["field"] == "ledger"
                return True
            assert response.status_code == 202, response.text
            acknowledged.add(response.json()["id"])
            return False

        wait_until(full, 60)
        assert client.get(f"/v1/tickets/{next(iter(acknowledged))}").status_code == 200
    child.kill()
    assert {row["id"] for row in rows(embedded.ledger_url)} >= acknowledged


class TestWhatCannotStart:
    def starts(self, serving: Serving, **settings: str) -> tuple[int, str]:
        serving.settings = {**serving.settings, **{f"TICKETMILL_{name}": value for name, value in settings.items()}}
        process = serving.launch()
        return process.wait(60), process.output()

    @pytest.fixture
    def unstarted(self, sqlite_ledger: Any, tmp_path: Path) -> Serving:
        return Serving(sys.executable, sqlite_ledger.url, f"redis://127.0.0.1:{free_port()}/0", tmp_path)

    def one_line(self, output: str) -> str:
        (line,) = output.strip().splitlines()
        assert line.startswith("ticketmill serve: ")
        return line

    def test_a_port_that_is_taken(self, unstarted: Serving) -> None:
        with socket.create_server(("127.0.0.1", unstarted.port)):
            status, output = self.starts(unstarted)
        assert status == 2
        assert f"http.port: 127.0.0.1:{unstarted.port} cannot be listened on" in self.one_line(output)

    def test_a_host_that_is_none(self, unstarted: Serving) -> None:
        status, output = self.starts(unstarted, HTTP_HOST="no such host")
        assert (status, "http.host: " in self.one_line(output)) == (2, True)

    def test_a_broker_of_no_kind_we_know(self, unstarted: Serving) -> None:
        status, output = self.starts(unstarted, BROKER_URL="sqs://key:secret@")
        assert (status, "broker.url: must begin with" in self.one_line(output)) == (2, True)
        assert "secret" not in output

    @pytest.mark.parametrize("url", ["mysql://root@localhost/x", "nonsense", "sqlite://"])
    def test_a_ledger_of_no_kind_we_know(self, unstarted: Serving, url: str) -> None:
        status, output = self.starts(unstarted, LEDGER_URL=url)
        assert (status, "ledger.url: " in self.one_line(output)) == (2, True)

    def test_a_ledger_without_tables(self, unstarted: Serving) -> None:
        status, output = self.starts(unstarted, LEDGER_URL=f"sqlite:///{unstarted.place}/none.db")
        assert (status, "Run `ticketmill" in self.one_line(output)) == (1, True)
        assert not (unstarted.place / "none.db").exists()

    def test_a_ledger_out_of_reach(self, unstarted: Serving) -> None:
        status, output = self.starts(unstarted, LEDGER_URL=f"postgresql://me:secret@127.0.0.1:{free_port()}/x")
        assert (status, "refused" in self.one_line(output), "secret" in output) == (1, True, False)

    def test_an_unknown_setting(self, unstarted: Serving) -> None:
        status, output = self.starts(unstarted, HTTP_PROT="1")
        assert (status, "TICKETMILL_HTTP_PROT" in self.one_line(output)) == (2, True)

    def test_others_may_reach_it_only_with_a_key(self, unstarted: Serving) -> None:
        status, output = self.starts(unstarted, HTTP_HOST="0.0.0.0")
        assert (status, "http.host: 0.0.0.0 can be reached from other machines" in self.one_line(output)) == (2, True)
        new_key(unstarted.ledger_url)
        unstarted.start()
        unstarted.close()
