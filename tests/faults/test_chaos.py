"""Random faults on every broker and ledger while tickets flow; then the promises are counted in the ledger.

``CHAOS_TICKETS=10000 pytest tests/faults/test_chaos.py`` runs it at full size, ``CHAOS_SEED`` repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa

from schemas.ledger import reading
from schemas.tables import answers, attempts, history, tickets
from tests.faults.rig import Rig, StartProcess
from tests.ground.brokers import Broker
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.serving import Serving, new_key
from tests.ground.waiting import wait_until

TICKETS = int(os.environ.get("CHAOS_TICKETS", "200"))
SEED = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
FAULT_EVERY = max(30, TICKETS // 50)
"""Answers between two faults."""

LEASE_S = 1.0
QUIET_S = 10.0
"""A fault comes after so long even where nothing was answered since the last one."""

RELAY = {"TICKETMILL_RELAY_RECONCILE_INTERVAL": "1s", "TICKETMILL_RELAY_LOST_AFTER": "5s"}
PRIORITIES = ("urgent", "high", "normal", "low")


class Mayhem:
    """Two workers and a broker, and what may befall them."""

    def __init__(self, rig: Rig, broker: Broker, chance: random.Random) -> None:
        self._rig = rig
        self._broker = broker
        self._chance = chance
        self._workers = [self._worker() for _ in range(2)]
        self._frozen: Process | None = None
        self._thawed_s = 0.0
        self._deck: list[Callable[[], None]] = []
        self.done: Counter[str] = Counter()

    def strike(self) -> None:
        """One fault: each kind as often as the others, in no order."""
        if not self._deck:
            self._deck = [self.kill_worker, self.freeze_worker, self.kill_broker]
            self._chance.shuffle(self._deck)
        fault = self._deck.pop()
        fault()
        self.done[fault.__name__] += 1

    def kill_worker(self) -> None:
        """kill -9, and a new one in its place."""
        place = self._chance.randrange(len(self._workers))
        if self._workers[place] is self._frozen:
            self._frozen = None
        self._workers[place].kill()
        self._workers[place] = self._worker()

    def freeze_worker(self) -> None:
        """SIGSTOP for longer than its lease."""
        if self._frozen is None:
            self._frozen = self._chance.choice(self._workers)
            self._frozen.pause()
            self._thawed_s = time.monotonic() + 3 * LEASE_S

    def kill_broker(self) -> None:
        """kill -9, and it comes back with what it had confirmed."""
        self._broker.kill()
        self._broker.start()

    def pass_time(self, *, thaw: bool = False) -> None:
        """Wakes the frozen one when its time has come."""
        if self._frozen is not None and (thaw or time.monotonic() > self._thawed_s):
            self._frozen.resume()
            self._frozen = None

    def _worker(self) -> Process:
        settings = {"worker_batch_policy": "fixed", "worker_batch_start": 16, "worker_most_starts": 1000}
        return self._rig.worker(app="tests.faults.slow_app", worker_lease=f"{LEASE_S}s", **settings)


# One broker's at a time: each has a RabbitMQ and a PostgreSQL of its own otherwise.
@pytest.mark.xdist_group("chaos")
def test_random_faults_lose_nothing_double_nothing_and_keep_order(
    broker: Broker, ledger: TestLedger, process: StartProcess, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    rig = Rig(broker.url, ledger, process, tmp_path)
    serving = Serving(sys.executable, ledger.url, broker.url, tmp_path, settings=RELAY)
    serving.start()
    try:
        _send(serving, new_key(ledger.url), chance)
        mayhem = Mayhem(rig, broker, chance)
        _until_answered(rig, mayhem)
        print(f"seed {SEED}: {dict(mayhem.done)}")
        assert _answers_by_ticket(rig) == dict.fromkeys(_all_ids(rig), 1)
        assert rig.answers() == TICKETS
        _check_order(rig)
        wait_until(lambda: rig.messages_left() == 0, 60)
    finally:
        serving.close()
        rig.close()


def _send(serving: Serving, key: str, chance: random.Random) -> None:
    with serving.client(key) as client:
        for first in range(0, TICKETS, 1000):
            lines = "\n".join(
                json.dumps(_ticket(number, chance)) for number in range(first, min(first + 1000, TICKETS))
            )
            posted = client.post("/v1/tickets", content=lines, headers={"Content-Type": "application/x-ndjson"})
            assert all("id" in json.loads(line) for line in posted.text.splitlines()), posted.text[:1000]


def _ticket(number: int, chance: random.Random) -> dict[str, str]:
    # A third belongs to conversations of about five.
    conversation = f"talk-{chance.randrange(max(1, TICKETS // 15))}" if number % 3 == 0 else ""
    ticket = {"body": "Where is my parcel?", "external_id": str(number), "priority": chance.choice(PRIORITIES)}
    return ticket | ({"conversation": conversation} if conversation else {})


def _until_answered(rig: Rig, mayhem: Mayhem) -> None:
    deadline = time.monotonic() + 60 + TICKETS / 10
    struck_at, struck_s = 0, time.monotonic()
    while (answered := rig.states().get("answered", 0)) < TICKETS:
        assert time.monotonic() < deadline, f"seed {SEED}, {mayhem.done}: {rig.states()}"
        assert sum(rig.states().values()) == TICKETS
        mayhem.pass_time()
        if answered - struck_at >= FAULT_EVERY or time.monotonic() - struck_s > QUIET_S:
            mayhem.strike()
            struck_at, struck_s = answered, time.monotonic()
        time.sleep(0.05)
    mayhem.pass_time(thaw=True)


def _all_ids(rig: Rig) -> list[str]:
    with reading(rig.engine) as connection:
        return list(connection.scalars(sa.select(tickets.c.id)))


def _answers_by_ticket(rig: Rig) -> dict[str, int]:
    """Successful attempts of each ticket: more than one would be two effects."""
    answered = attempts.c.outcome == "answered"
    query = sa.select(attempts.c.ticket_id, sa.func.count()).where(answered).group_by(attempts.c.ticket_id)
    with reading(rig.engine) as connection:
        assert not connection.execute(_TWICE).all()
        return dict(connection.execute(query).all())


_TWICE = sa.select(answers.c.ticket_id).group_by(answers.c.ticket_id).having(sa.func.count() > 1)


def _check_order(rig: Rig) -> None:
    """In a conversation none begins before the one before it is answered."""
    with reading(rig.engine) as connection:
        order = sa.select(tickets.c.id, tickets.c.conversation).where(tickets.c.conversation != "")
        talks: dict[str, list[str]] = {}
        for ticket_id, name in connection.execute(order.order_by(tickets.c.sequence)):
            talks.setdefault(name, []).append(ticket_id)
        began = dict(connection.execute(_first("running")).all())
        ended = dict(connection.execute(_first("answered")).all())
    assert any(len(talk) > 1 for talk in talks.values())
    for talk in talks.values():
        for before, after in pairwise(talk):
            assert ended[before] < began[after], f"seed {SEED}: {before} was still open when {after} began"


def _first(state: str) -> sa.Select[tuple[str, int]]:
    """When each ticket first came into that state: the number of its row in the history."""
    rows = sa.select(history.c.ticket_id, sa.func.min(history.c.id)).where(history.c.after == state)
    return rows.group_by(history.c.ticket_id)
