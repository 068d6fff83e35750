"""Many processes write one ledger at once: nothing is lost, nobody is turned away, nobody waits for ever."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from schemas.errors import LedgerUnavailable
from schemas.ledger import Move, lock, move, open_ledger, reading, writing
from schemas.states import State
from schemas.tables import history, tickets
from tests.ground.ledgers import TestLedger
from tests.ground.process import Process
from tests.ground.rows import NOW, take_in

WRITER = """
import sys
from schemas.ledger import Move, lock, move, open_ledger, writing
from schemas.states import State
from tests.ground.rows import NOW, take_in

engine = open_ledger(sys.argv[1])
for number in range(int(sys.argv[2])):
    with writing(engine) as connection:
        ids = [take_in(connection, conversation=f"c{number % 3}"), take_in(connection)]
    with writing(engine) as connection:
        rows = lock(connection, ids[1:])
        move(connection, [Move(row, State.RUNNING) for row in rows.values()], NOW)
    with writing(engine) as connection:
        rows = lock(connection, ids[1:])
        move(connection, [Move(row, State.ANSWERED) for row in rows.values()], NOW)
engine.dispose()
"""


def test_nothing_is_lost_between_several_writing_processes(
    ledger: TestLedger, process: Callable[..., Process], tmp_path: Path
) -> None:
    (tmp_path / "ledger_writer.py").write_text(WRITER)
    writers = [process("ledger_writer", ledger.url, "40") for _ in range(4)]
    assert [writer.wait(120) for writer in writers] == [0] * 4, [writer.output(2000) for writer in writers]
    with reading(ledger.engine) as connection:
        states = connection.scalars(sa.select(tickets.c.state)).all()
        assert (states.count("queued"), states.count("answered")) == (160, 160)
        assert connection.scalar(sa.select(sa.func.count()).select_from(history)) == 160 * 4
        due = connection.execute(
            sa.select(tickets.c.sequence).where(tickets.c.conversation != "", tickets.c.due_at.is_not(None))
        )
        assert sorted(due.scalars()) == [1, 1, 1], "each conversation has its first ticket due, and no other"


def test_a_ticket_is_started_by_one_of_many(ledger: TestLedger) -> None:
    with writing(ledger.engine) as connection:
        ids = [take_in(connection) for _ in range(20)]

    def start(worker: str) -> int:
        with writing(ledger.engine) as connection:
            queued = [row for row in lock(connection, ids).values() if row.state is State.QUEUED]
            move(connection, [Move(row, State.RUNNING, worker=worker) for row in queued], NOW)
            return len(queued)

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(start, [f"w{number}" for number in range(6)])) == 20


def test_settling_one_and_cancelling_the_next_at_once_never_blocks_both(ledger: TestLedger) -> None:
    for _ in range(15):
        with writing(ledger.engine) as connection:
            first, second, third = (take_in(connection, conversation="c") for _ in range(3))
            move(connection, [Move(lock(connection, [first])[first], State.RUNNING)], NOW)
        together = threading.Barrier(2)

        def end(ticket_id: str, state: State, together: threading.Barrier = together) -> None:
            together.wait()
            with writing(ledger.engine) as connection:
                move(connection, [Move(lock(connection, [ticket_id])[ticket_id], state)], NOW)

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(end, first, State.ANSWERED), pool.submit(end, second, State.CANCELLED)]:
                done.result(60)
        with writing(ledger.engine) as connection:
            assert due(connection, third)
            move(connection, [Move(lock(connection, [third])[third], State.CANCELLED)], NOW)


def due(connection: Connection, ticket_id: str) -> bool:
    return connection.scalar(sa.select(tickets.c.due_at).where(tickets.c.id == ticket_id)) is not None


def test_a_reader_does_not_stop_a_writer(ledger: TestLedger) -> None:
    with reading(ledger.engine) as before:
        assert before.scalar(sa.select(sa.func.count()).select_from(tickets)) == 0
        with writing(ledger.engine) as connection:
            take_in(connection)
    with reading(ledger.engine) as after:
        assert after.scalar(sa.select(sa.func.count()).select_from(tickets)) == 1


def test_a_full_disk_is_one_clear_line_and_changes_nothing(sqlite_ledger: TestLedger) -> None:
    take_in_many(sqlite_ledger.engine, 1)
    full = open_ledger(sqlite_ledger.url)
    sa.event.listen(full, "connect", _no_more_pages)
    with pytest.raises(LedgerUnavailable, match=r"^ledger sqlite:///.*: database or disk is full. Run") as error:
        take_in_many(full, 1000)
    full.dispose()
    assert "\n" not in str(error.value)
    with reading(sqlite_ledger.engine) as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(tickets)) == 1


def take_in_many(engine: Engine, count: int) -> None:
    with writing(engine) as connection:
        for _ in range(count):
            take_in(connection)


def _no_more_pages(dbapi: sqlite3.Connection, _record: object) -> None:
    pages = dbapi.execute("PRAGMA page_count").fetchone()[0]
    dbapi.execute(f"PRAGMA max_page_count={pages}").close()


def test_a_database_that_is_gone_is_one_clear_line_and_comes_back(postgresql_ledger: TestLedger) -> None:
    assert postgresql_ledger.server is not None
    take_in_many(postgresql_ledger.engine, 1)
    postgresql_ledger.server.kill()
    with pytest.raises(LedgerUnavailable, match=r"^ledger postgresql://.* Run `ticketmill doctor`$") as error:
        take_in_many(postgresql_ledger.engine, 1)
    assert "\n" not in str(error.value)
    postgresql_ledger.server.start()
    take_in_many(postgresql_ledger.engine, 1)
    with reading(postgresql_ledger.engine) as connection:
        assert len(connection.execute(sa.select(tickets.c.id)).all()) == 2
