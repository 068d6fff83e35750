"""The ledger's own rules on both databases: moves, their history, and the order of conversations."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from itertools import pairwise

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Connection

from schemas.errors import ForbiddenMove
from schemas.ledger import Move, lock, move, reading, writing
from schemas.states import State
from schemas.tables import conversations, history, tickets
from tests.ground.ledgers import TestLedger
from tests.ground.rows import NOW, take_in

LATER = NOW + timedelta(seconds=5)
ON_A_SHARED_LEDGER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


def go(connection: Connection, ticket_id: str, *states: State) -> None:
    """One move after another."""
    for state in states:
        move(connection, [Move(lock(connection, [ticket_id])[ticket_id], state)], LATER)


def move_all(ledger: TestLedger, ids: list[str], *states: State) -> None:
    """All of them in one transaction."""
    with writing(ledger.engine) as connection:
        rows = lock(connection, ids)
        move(connection, [Move(rows[each], state) for each, state in zip(ids, states, strict=True)], LATER)


def test_a_move_changes_the_row_and_leaves_its_history(ledger: TestLedger) -> None:
    with writing(ledger.engine) as connection:
        ticket_id = take_in(connection)
        row = lock(connection, [ticket_id])[ticket_id]
        begun = Move(row, State.RUNNING, reason="its turn", worker="w1", changes={"starts": 1})
        move(connection, [begun], LATER)
        row = lock(connection, [ticket_id])[ticket_id]
    assert (row.state, row.worker, row.starts) == (State.RUNNING, "w1", 1)
    with reading(ledger.engine) as connection:
        last = connection.execute(sa.select(history).order_by(history.c.id.desc()).limit(1)).mappings().one()
    assert (last["before"], last["after"], last["reason"], last["worker"]) == ("queued", "running", "its turn", "w1")
    assert last["at"] == LATER


def test_a_final_state_notes_when_and_an_open_one_forgets_it(ledger: TestLedger) -> None:
    def settled_at() -> object:
        return connection.scalars(sa.select(tickets.c.settled_at)).one()

    with writing(ledger.engine) as connection:
        ticket_id = take_in(connection)
        go(connection, ticket_id, State.RUNNING, State.DEAD)
        assert settled_at() == LATER
        go(connection, ticket_id, State.QUEUED)
        assert settled_at() is None


def test_one_forbidden_move_undoes_the_whole_batch(ledger: TestLedger) -> None:
    with writing(ledger.engine) as connection:
        ids = [take_in(connection) for _ in range(3)]
    with pytest.raises(ForbiddenMove, match="cannot go from queued to answered"):
        move_all(ledger, ids, State.RUNNING, State.RUNNING, State.ANSWERED)
    with reading(ledger.engine) as connection:
        assert set(connection.scalars(sa.select(tickets.c.state))) == {"queued"}
        assert connection.scalar(sa.select(sa.func.count()).select_from(history)) == 3


def test_ids_that_are_not_there_are_left_out(ledger: TestLedger) -> None:
    with writing(ledger.engine) as connection:
        ticket_id = take_in(connection)
        assert set(lock(connection, [ticket_id, "no such ticket"])) == {ticket_id}
        assert lock(connection, []) == {}
        move(connection, [], LATER)


def test_times_come_back_aware_and_equal(ledger: TestLedger) -> None:
    with writing(ledger.engine) as connection:
        take_in(connection, received_at=NOW)
    with reading(ledger.engine) as connection:
        assert connection.scalars(sa.select(tickets.c.received_at)).one() == NOW


ASKED = st.tuples(
    st.sampled_from(["take in", "start", "answer", "kill", "wait", "wake", "park", "give back", "cancel"]),
    st.integers(0, 7),
)
FROM = {
    "start": (State.QUEUED,),
    "answer": (State.RUNNING,),
    "kill": (State.RUNNING,),
    "wait": (State.RUNNING,),
    "park": (State.RUNNING,),
    "give back": (State.RUNNING,),
    "wake": (State.WAITING, State.PARKED),
    "cancel": (State.QUEUED, State.WAITING, State.PARKED),
}
TO = {
    "start": State.RUNNING,
    "answer": State.ANSWERED,
    "kill": State.DEAD,
    "wait": State.WAITING,
    "park": State.PARKED,
    "give back": State.QUEUED,
    "wake": State.QUEUED,
    "cancel": State.CANCELLED,
}


@ON_A_SHARED_LEDGER
@given(asked=st.lists(ASKED, max_size=30))
@example(asked=[("take in", 0)] * 3 + [("cancel", 1), ("start", 0), ("answer", 0)])
@example(asked=[("take in", 0)] * 3 + [("start", 0), ("park", 0), ("cancel", 0), ("start", 0)])
def test_a_conversation_is_served_in_order_and_never_stands_still(
    ledger: TestLedger, asked: list[tuple[str, int]]
) -> None:
    with writing(ledger.engine) as connection:
        for table in (tickets, conversations, history):
            connection.execute(sa.delete(table))
    for what, which in asked:
        with writing(ledger.engine) as connection:
            do(connection, what, which)
            assert_in_order(connection)
    with writing(ledger.engine) as connection:
        assert_histories_are_whole(connection)


def do(connection: Connection, what: str, which: int) -> None:
    if what == "take in":
        take_in(connection, conversation=["", "a", "b"][which % 3])
        return
    fit = sa.select(tickets.c.id).where(tickets.c.state.in_([state.value for state in FROM[what]]))
    if what == "start":
        fit = fit.where(tickets.c.due_at.is_not(None))
    ids = list(connection.scalars(fit.order_by(tickets.c.id)))
    if ids:
        ticket_id = ids[which % len(ids)]
        changes = {"due_at": NOW} if what in ("give back", "wake") else {}
        move(connection, [Move(lock(connection, [ticket_id])[ticket_id], TO[what], changes=changes)], LATER)


def assert_in_order(connection: Connection) -> None:
    by_conversation = defaultdict(list)
    for row in connection.execute(sa.select(tickets).order_by(tickets.c.sequence)):
        by_conversation[row.conversation].append(row)
    assert all(row.due_at is not None for row in by_conversation.pop("", []))
    for rows in by_conversation.values():
        still_open = [row for row in rows if not State(row.state).final]
        assert all(row.due_at is not None for row in still_open[:1]), "the head is held: nothing will ever release it"
        assert all(row.state == "queued" and row.due_at is None for row in still_open[1:]), "overtook an earlier one"


def assert_histories_are_whole(connection: Connection) -> None:
    states = dict(connection.execute(sa.select(tickets.c.id, tickets.c.state)).all())
    changes = defaultdict(list)
    for row in connection.execute(sa.select(history).order_by(history.c.id)):
        changes[row.ticket_id].append(row)
    assert set(changes) == set(states)
    for ticket_id, rows in changes.items():
        assert rows[0].before == ""
        assert all(one.after == next_one.before for one, next_one in pairwise(rows))
        assert rows[-1].after == states[ticket_id]
