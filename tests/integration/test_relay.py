"""From the outbox to the broker and back, turn by turn, with the time of day in the test's hands."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from redis import Redis

from producer.adapters.brokers import open_broker
from producer.admission import OpenGate
from producer.duties import Duty, ReconcilerTurns, RelayTurns
from producer.ports import Receipt
from producer.relay import GRACE, Reconciler, Relay, Tray
from schemas.envelope import Stub
from schemas.errors import BrokerUnavailable
from schemas.ledger import writing
from schemas.states import State
from schemas.tables import tickets, workers
from schemas.ticket import Priority
from tests.contract.desk import NOW, Desk, new
from tests.ground.ledgers import TestLedger
from tests.ground.redis_server import RedisServer

SECOND = timedelta(seconds=1)


class House:
    """One ledger, one Redis, and any number of serving processes' routines over them."""

    def __init__(self, ledger: TestLedger, redis: RedisServer) -> None:
        self.now = NOW
        self.desk = Desk(ledger)
        self.redis = Redis.from_url(redis.url)
        self.broker = open_broker(redis.url)

    def relay(self, name: str = "one", tray: Tray | None = None) -> RelayTurns:
        relay = Relay(self.desk.outbox, self.broker, chunk=10, window=lambda: 25, judge=OpenGate().judge_held)
        duty = Duty(self.desk.books, "relay", name, 5 * SECOND)
        return RelayTurns(tray or Tray(100), relay, duty, self.clock, timedelta(), 10)

    def reconciler(self) -> ReconcilerTurns:
        reconciler = Reconciler(
            self.desk.books,
            self.broker,
            chunk=10,
            silent_after=60 * SECOND,
            lost_after=30 * SECOND,
            hold=timedelta(minutes=30),
        )
        return ReconcilerTurns(reconciler, Duty(self.desk.books, "reconciler", "one", 5 * SECOND), self.clock, SECOND)

    def clock(self) -> datetime:
        return self.now

    def take(self, *sent: Any) -> list[Stub]:
        receipts: list[Receipt] = self.desk.take(*sent, now=self.now)
        return [each.stub for each in receipts if each.stub is not None]

    def queued(self) -> list[str]:
        """The ids of all messages, in the order of service."""
        return [
            message.partition(b'"id":"')[2][:36].decode()
            for priority in Priority
            for message in reversed(self.redis.lrange(f"ticketmill.{priority}", 0, -1))
        ]

    def close(self) -> None:
        self.broker.close()
        self.redis.close()


@pytest.fixture
def house(sqlite_ledger: TestLedger, redis: RedisServer) -> Generator[House]:
    opened = House(sqlite_ledger, redis)
    yield opened
    opened.close()


class TestRelay:
    def test_what_a_door_lays_down_is_published_at_once(self, house: House) -> None:
        tray = Tray(100)
        stubs = house.take(new(), new(priority=Priority.URGENT))
        tray.put(stubs, house.now)
        house.relay(tray=tray).turn()
        assert house.queued() == [stubs[1].id, stubs[0].id]
        assert all(house.desk.row(stub.id)["published_at"] == NOW for stub in stubs)

    def test_what_no_door_lays_down_is_swept(self, house: House) -> None:
        stubs = house.take(*(new() for _ in range(25)))
        relay = house.relay()
        relay.turn()
        assert house.queued() == []
        house.now += GRACE
        for _ in range(3):
            relay.turn()
        assert house.queued() == [stub.id for stub in stubs]

    def test_what_still_lies_on_the_tray_is_not_swept_as_well(self, house: House) -> None:
        tray = Tray(100)
        swept = house.take(new())
        house.now += GRACE
        lying = house.take(new(), new())
        tray.put(lying, house.now)
        house.now += GRACE
        sweeper = Relay(house.desk.outbox, house.broker, chunk=10, window=lambda: 25, judge=OpenGate().judge_held)
        assert sweeper.sweep(house.now, tray.oldest) == 1
        assert house.queued() == [stub.id for stub in swept]
        house.relay(tray=tray).turn()
        assert house.queued() == [stub.id for stub in swept + lying]

    def test_a_tray_that_overflows_leaves_the_rest_to_the_sweep(self, house: House) -> None:
        tray = Tray(3)
        stubs = house.take(*(new() for _ in range(8)))
        tray.put(stubs, house.now)
        relay = house.relay(tray=tray)
        relay.turn()
        assert len(house.queued()) == 3
        house.now += GRACE
        relay.turn()
        assert sorted(house.queued()) == sorted(stub.id for stub in stubs)

    def test_backfill_goes_through_its_window_and_waiting_tickets_are_woken(self, house: House) -> None:
        house.take(*(new(priority=Priority.BACKFILL) for _ in range(40)))
        (waits,) = house.take(new())
        house.desk.to(waits.id, State.RUNNING)
        house.desk.to(waits.id, State.WAITING, due_at=NOW + 60 * SECOND, published_at=None)
        relay = house.relay()
        for _ in range(5):
            relay.turn()
        assert len(house.queued()) == 25
        house.now += 60 * SECOND
        relay.turn()
        assert house.queued()[0] == waits.id
        assert house.desk.row(waits.id)["delivery"] == 2

    def test_one_process_sweeps_at_a_time_and_another_follows_when_it_is_gone(self, house: House) -> None:
        one, two = house.relay("one"), house.relay("two")
        one.turn()
        house.take(new())
        house.now += GRACE
        two.turn()
        assert house.queued() == []
        house.now += 6 * SECOND
        two.turn()
        assert len(house.queued()) == 1

    def test_one_that_ends_in_good_order_leaves_its_duty_at_once(self, house: House) -> None:
        one, two = house.relay("one"), house.relay("two")
        one.turn()
        house.take(new())
        house.now += GRACE
        one.last()
        two.turn()
        assert len(house.queued()) == 1

    def test_a_broker_that_is_away_loses_nothing(self, house: House, redis: RedisServer) -> None:
        tray = Tray(100)
        relay = house.relay(tray=tray)
        stubs = house.take(new(), new())
        tray.put(stubs, house.now)
        redis.kill()
        with pytest.raises(BrokerUnavailable):
            relay.turn()
        redis.start()
        house.now += GRACE
        relay.turn()
        assert house.queued() == [stub.id for stub in stubs]


class TestReconciler:
    def test_what_the_broker_lost_goes_back_into_the_outbox(self, house: House) -> None:
        stubs = house.take(*(new() for _ in range(25)))
        house.relay().turn()
        house.now += GRACE
        relay = house.relay()
        for _ in range(3):
            relay.turn()
        gone = {house.redis.rpop("ticketmill.normal") for _ in range(12)}
        assert len(gone) == 12
        reconciler = house.reconciler()
        reconciler.turn()
        assert len(house.queued()) == 13  # too early to tell
        house.now += 31 * SECOND
        reconciler.turn()
        for _ in range(3):
            house.now += GRACE
            relay.turn()
        assert sorted(house.queued()) == sorted(stub.id for stub in stubs)
        assert {house.desk.row(stub.id)["delivery"] for stub in stubs} == {1}

    def test_what_is_there_is_left_there(self, house: House) -> None:
        stubs = house.take(*(new(priority=priority) for priority in (Priority.HIGH, Priority.LOW)))
        house.now += GRACE
        house.relay().turn()
        house.now += 31 * SECOND
        house.reconciler().turn()
        house.now += GRACE
        house.relay("one").turn()
        assert sorted(house.queued()) == sorted(stub.id for stub in stubs)

    def test_what_a_silent_worker_was_running_is_queued_again(self, house: House) -> None:
        (stub,) = house.take(new())
        house.now += GRACE
        house.relay().turn()
        house.redis.delete("ticketmill.normal")
        with writing(house.desk.engine) as connection:
            seen = {"name": "w", "started_at": NOW, "seen_at": NOW, "slots": 1, "model": ""}
            connection.execute(sa.insert(workers).values(seen))
        house.desk.to(stub.id, State.RUNNING)
        with writing(house.desk.engine) as connection:
            connection.execute(sa.update(tickets).values(worker="w"))
        house.now = NOW + 59 * SECOND
        house.reconciler().turn()
        assert house.desk.row(stub.id)["state"] == "running"
        house.now = NOW + 61 * SECOND
        house.reconciler().turn()
        house.now += GRACE
        house.relay().turn()
        assert house.queued() == [stub.id]
        assert house.desk.row(stub.id)["delivery"] == 2
