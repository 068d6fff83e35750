"""Raw Celery messages become tickets, on every broker; what cannot become one is kept and its sender told."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery
from celery.result import AsyncResult
from kombu.connection import Connection
from redis import Redis

from producer.adapters.brokers import is_redis
from producer.adapters.celery_results import CeleryResults
from producer.adapters.clock import pause, utc_now
from producer.adapters.ledger import SqlLedger, new_ids
from producer.adapters.rabbitmq_inlet import RabbitInlet
from producer.adapters.redis_inlet import RedisInlet
from producer.admission import OpenGate
from producer.inlet import InletTurns
from producer.intake import Intake
from producer.ports import Inlet
from producer.relay import Tray
from schemas.ledger import Move, lock, move, reading, writing
from schemas.queues import INLET, TASK
from schemas.states import State
from schemas.tables import aliases, answers, strays, tickets
from schemas.ticket import Ticket
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.redis_server import RedisServer


class Door:
    """An inlet, and a Celery program that sends to it."""

    def __init__(self, ledger: TestLedger, broker_url: str, results_url: str = "") -> None:
        self.engine = ledger.engine
        self.broker_url = broker_url
        self.inlet: Inlet = RedisInlet(broker_url, pause) if is_redis(broker_url) else RabbitInlet(broker_url, 100)
        self.tray = Tray(1000)
        tickets = SqlLedger(ledger.engine)
        self.turns = InletTurns(
            self.inlet,
            Intake(tickets, OpenGate(), {"reply"}, new_ids),
            tickets,
            CeleryResults(results_url),
            self.tray,
            tenant="default",
            chunk=100,
            clock=utc_now,
            mine=lambda _: True,
        )
        self.celery = Celery(broker=broker_url, backend=results_url or None, set_as_current=False)

    def send(self, **options: Any) -> AsyncResult:
        return self.celery.send_task(TASK, queue=INLET, **options)

    def put(self, body: bytes, **properties: Any) -> None:
        """A message that no Celery wrote."""
        with Connection(self.broker_url) as connection, connection.channel() as channel:
            channel.queue_declare(INLET, durable=True, auto_delete=False)
            message = channel.prepare_message(body, **properties)
            channel.basic_publish(message, exchange="", routing_key=INLET)

    def take(self, turns: int = 1) -> None:
        for _ in range(turns):
            self.turns.turn()

    def left(self) -> int:
        with Connection(self.broker_url) as connection, connection.channel() as channel:
            return channel.queue_declare(INLET, durable=True, auto_delete=False).message_count

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        with reading(self.engine) as connection:
            return [dict(row) for row in connection.execute(sa.select(table)).mappings()]

    def tickets(self) -> dict[str, Ticket]:
        import msgspec

        return {row["id"]: msgspec.json.decode(row["document"], type=Ticket) for row in self.rows(tickets)}

    def answer(self, ticket_id: str) -> None:
        with writing(self.engine) as connection:
            for state in (State.RUNNING, State.ANSWERED):
                move(connection, [Move(lock(connection, [ticket_id])[ticket_id], state)], utc_now())
            document = '{"text": "It is on its way", "model": "m"}'
            connection.execute(sa.insert(answers).values(ticket_id=ticket_id, at=utc_now(), document=document))

    def close(self) -> None:
        self.inlet.close()
        gc.collect()  # a result says goodbye to its backend when it goes, and waits long for one that is gone before it
        self.celery.close()


@pytest.fixture(params=["redis", "rabbitmq"])
def door(sqlite_ledger: TestLedger, request: pytest.FixtureRequest) -> Generator[Door]:
    broker: Broker = request.getfixturevalue(request.param)
    opened = Door(sqlite_ledger, broker.url)
    yield opened
    opened.close()


@pytest.fixture
def told(sqlite_ledger: TestLedger, redis: RedisServer) -> Generator[Door]:
    """One whose sender waits for results."""
    opened = Door(sqlite_ledger, redis.url, redis.url)
    yield opened
    opened.close()


class TestTickets:
    @pytest.mark.parametrize("protocol", [1, 2])
    @pytest.mark.parametrize("how", ["kwargs", "args"])
    def test_a_task_becomes_a_ticket_under_its_own_id(self, door: Door, protocol: int, how: str) -> None:
        door.celery.conf.task_protocol = protocol
        fields = {"body": "我的包裹没有到", "priority": "high", "metadata": {"order": 7}}
        sent = door.send(kwargs=fields) if how == "kwargs" else door.send(args=[fields])
        door.take()
        ((ticket_id, ticket),) = door.tickets().items()
        assert (ticket_id, ticket.tenant, ticket.body) == (sent.id, "default", fields["body"])
        assert [stub.id for stub in door.tray.take(0)] == [sent.id]
        assert door.left() == 0

    def test_many_at_once_in_order(self, door: Door) -> None:
        sent = [door.send(kwargs={"body": f"Ticket {number}", "conversation": "c"}).id for number in range(130)]
        door.take(2)
        rows = sorted(door.rows(tickets), key=lambda row: row["sequence"])
        assert [row["id"] for row in rows] == sent
        assert door.left() == 0

    def test_a_tasks_priority_number_hides_it_from_nobody(self, door: Door) -> None:
        sent = {door.send(kwargs={"body": "x"}, priority=number).id for number in (0, 3, 5, 9)}
        door.take(4)
        assert set(door.tickets()) == sent

    def test_another_name_is_noted_as_an_alias(self, door: Door) -> None:
        door.send(kwargs={"body": "x"}, task_id="order 7")
        door.take()
        (ticket_id,) = door.tickets()
        assert door.rows(aliases) == [{"task_id": "order 7", "ticket_id": ticket_id}]

    def test_what_was_taken_in_and_not_acknowledged_is_taken_in_once(self, door: Door) -> None:
        sent = [door.send(kwargs={"body": "x"}, task_id=name).id for name in ("one", "two")]
        door.turns._take(door.inlet.receive(10, 5.0))  # and killed here
        door.inlet.close()
        door.take()
        assert len(door.tickets()) == 2
        assert [row["task_id"] for row in door.rows(aliases)] == sent
        assert door.left() == 0

    def test_the_shorter_time_limit_is_kept(self, door: Door) -> None:
        door.send(kwargs={"body": "x"}, time_limit=30, soft_time_limit=20.5)
        door.send(kwargs={"body": "y"}, time_limit=30)
        door.send(kwargs={"body": "z"})
        door.take()
        assert {each.body: each.time_limit for each in door.tickets().values()} == {"x": 20.5, "y": 30, "z": None}

    def test_eta_and_expires_are_kept(self, door: Door) -> None:
        later = datetime.now(UTC) + timedelta(hours=1)
        door.send(kwargs={"body": "x"}, eta=later, expires=later + timedelta(hours=1))
        door.take()
        ((_, ticket),) = door.tickets().items()
        (row,) = door.rows(tickets)
        assert abs(row["due_at"] - later) < timedelta(seconds=1)
        assert ticket.deadline is not None
        assert abs(ticket.deadline - later - timedelta(hours=1)) < timedelta(seconds=1)
        assert door.tray.take(0) == []


class TestStrays:
    JSON = {"content_type": "application/json", "content_encoding": "utf-8"}

    @pytest.mark.parametrize(
        ("headers", "body", "properties", "reason"),
        [
            ({"task": "other.task", "id": "a"}, b"[[], {}, {}]", JSON, "task: must be 'ticketmill.ticket'"),
            ({"task": TASK}, b'[[{"body": "x"}], {}, {}]', JSON, "id: must be"),
            ({"task": TASK, "id": "a"}, b"[[], {}, {}]", JSON, "args: must be one object"),
            ({"task": TASK, "id": "a"}, b"7", JSON, "args: must be one object"),
            ({"task": TASK, "id": "a"}, b'[["x"], {}, {}]', JSON, "args: must be one object"),
            ({"task": TASK, "id": "a"}, b'[[{"body": "x"}], {"body": "y"}, {}]', JSON, "args: must be one object"),
            ({"task": TASK, "id": "a"}, b'[[], {"body": 7}, {}]', JSON, "body: must be text"),
            ({"task": TASK, "id": "a"}, b'[[], {"body": "x", "colour": 1}, {}]', JSON, "colour: is not a field"),
            ({"task": TASK, "id": "a"}, b'[[], {"body": "x", "job": "none"}, {}]', JSON, "job: there is no job"),
            ({"task": TASK, "id": "a", "eta": "soon"}, b'[[], {"body": "x"}, {}]', JSON, "eta: must be a time"),
            ({"task": TASK, "id": "a", "timelimit": "x"}, b'[[], {"body": "x"}, {}]', JSON, "timelimit: must be two"),
            ({"task": TASK, "id": "a", "timelimit": [0, -1]}, b'[[], {"body": "x"}, {}]', JSON, "time_limit: must be"),
            ({"task": TASK, "id": "a"}, b"{", JSON, "body: is no JSON"),
            ({"task": TASK, "id": "a"}, b"[" * 5000, JSON, "body: is no JSON"),
            (
                {"task": TASK, "id": "a"},
                b"\x80\x04",
                {"content_type": "application/x-python-serialize"},
                "content_type",
            ),
            ({"task": TASK, "id": "a", "compression": "application/x-gzip"}, b"x", JSON, "compression: is"),
            ({}, b"hello", {"content_type": "text/plain", "content_encoding": "utf-8"}, "content_type: is"),
        ],
    )
    def test_what_is_no_ticket_is_kept_with_its_bytes(
        self, door: Door, headers: dict[str, Any], body: bytes, properties: dict[str, Any], reason: str
    ) -> None:
        door.put(body, headers=headers, **properties)
        good = door.send(kwargs={"body": "A neighbour"})
        door.take()
        assert set(door.tickets()) == {good.id}
        (stray,) = door.rows(strays)
        assert (stray["queue"], stray["body"]) == (INLET, body)
        assert stray["reason"].startswith(reason)
        assert json.loads(stray["headers"])["headers"].get("id") == headers.get("id")
        assert door.left() == 0

    @pytest.mark.parametrize(
        "junk", [b"", b"junk", b"{}", b"\xff\xfe\x00", b'{"body": "!", "properties": {}}', b"[" * 9999]
    )
    def test_what_kombu_never_wrote(self, told: Door, redis: RedisServer, junk: bytes) -> None:
        with Redis.from_url(redis.url) as server:
            server.lpush(INLET, junk)
        good = told.send(kwargs={"body": "A neighbour"})
        told.take()
        assert set(told.tickets()) == {good.id}
        (stray,) = told.rows(strays)
        assert (stray["body"], stray["headers"]) == (junk, b"")

    def test_every_hostile_string_as_a_body(
        self, door: Door, real_tickets: Callable[..., list[dict[str, Any]]]
    ) -> None:
        texts = {door.send(kwargs={"body": row["text"]}).id: row["text"] for row in real_tickets("edge_strings", 100)}
        door.take(2)
        kept = {ticket_id: ticket.body for ticket_id, ticket in door.tickets().items()}
        assert kept == {ticket_id: texts[ticket_id] for ticket_id in kept}
        assert len(kept) + len(door.rows(strays)) == len(texts)


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")  # by Celery's own Redis backend
class TestResults:
    def test_a_refused_task_fails_with_the_reason(self, told: Door) -> None:
        refused = told.send(kwargs={"body": "x", "job": "none"})
        malformed = told.send(kwargs={"body": 7})
        told.take()
        with pytest.raises(Exception, match=r"job: there is no job 'none'"):
            refused.get(timeout=10)
        with pytest.raises(Exception, match=r"body: must be text"):
            malformed.get(timeout=10)

    def test_a_ticket_that_was_answered_before_is_answered_at_once(self, told: Door) -> None:
        first = told.send(kwargs={"body": "x", "external_id": "42"})
        told.take()
        told.answer(first.id)
        again = told.send(kwargs={"body": "x", "external_id": "42"})
        told.take()
        assert again.get(timeout=10)["text"] == "It is on its way"

    def test_one_that_is_not_answered_yet_stays_open_under_both_names(self, told: Door) -> None:
        first = told.send(kwargs={"body": "x", "external_id": "42"})
        again = told.send(kwargs={"body": "x", "external_id": "42"})
        told.take()
        assert again.state == "PENDING"
        assert told.rows(aliases) == [{"task_id": again.id, "ticket_id": first.id}]

    def test_one_that_was_given_up_fails_with_its_reason(self, told: Door) -> None:
        first = told.send(kwargs={"body": "x", "external_id": "42"})
        told.take()
        with writing(told.engine) as connection:
            move(connection, [Move(lock(connection, [first.id])[first.id], State.DEAD, reason="too long")], utc_now())
        again = told.send(kwargs={"body": "x", "external_id": "42"})
        told.take()
        with pytest.raises(Exception, match="too long"):
            again.get(timeout=10)


def test_two_processes_that_read_one_list_lose_nothing(sqlite_ledger: TestLedger, redis: RedisServer) -> None:
    one, two = Door(sqlite_ledger, redis.url), Door(sqlite_ledger, redis.url)
    sent = {one.send(kwargs={"body": "x"}).id for _ in range(20)}
    first, second = one.inlet.receive(5, 1.0), two.inlet.receive(5, 1.0)
    two.turns._take(second)
    two.inlet.done(second)
    one.turns._take(first)
    one.inlet.done(first)  # what it saw is gone already: nothing else may go in its place
    assert one.left() == 15
    one.take()
    assert set(one.tickets()) == sent
    one.close()
    two.close()
