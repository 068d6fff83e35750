"""Brokers that are killed under a running batch: it ends, the worker finds its way back, each is answered once."""

from __future__ import annotations

from tests.faults.rig import Rig
from tests.ground.brokers import Broker
from tests.ground.waiting import wait_until

SMALL = {"worker_batch_policy": "fixed", "worker_batch_start": 4, "worker_lease": "2s"}


def test_a_batch_ends_while_its_broker_is_dead(rig: Rig, broker: Broker) -> None:
    running = rig.send(4, body="wait")
    rig.send(100)
    worker = rig.worker(**SMALL)
    rig.until_seen(4)
    broker.kill()
    rig.let_go(4)
    rig.until({"answered": 4, "queued": 100})
    broker.start()
    rig.until({"answered": 104}, 60)
    assert rig.answers() == 104
    wait_until(lambda: rig.messages_left() == 0, 60)
    assert worker.alive
    assert len({ticket_id for ticket_id, _ in rig.seen}) == len(rig.seen) == 104
    assert {stub.id for stub in running} == {ticket_id for ticket_id, _ in rig.seen[:4]}


def test_a_broker_killed_again_and_again_under_load_loses_nothing(rig: Rig, broker: Broker) -> None:
    rig.send(300)
    worker = rig.worker(**SMALL)
    for round_ in range(1, 4):
        rig.send(4, body="wait")
        rig.until_seen(60 * round_, 60)
        broker.kill()
        rig.let_go(4)
        broker.start()
    rig.until({"answered": 312}, 90)
    assert rig.answers() == 312
    wait_until(lambda: rig.messages_left() == 0, 60)
    assert worker.alive
