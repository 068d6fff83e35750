"""How tenants share the queues."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from producer.policy.shares import LEAST, MOST, UNKNOWN, Shares, window_of
from schemas.envelope import Stub
from schemas.ticket import Priority

TENANTS = ("acme", "globex", "initech")
tenants = st.sampled_from(TENANTS)
moves = st.lists(st.tuples(st.booleans(), st.lists(tenants, max_size=30), st.integers(0, 40)), max_size=30)


def stubs(names: list[str]) -> list[Stub]:
    return [
        Stub(id=str(n), delivery=1, priority=Priority.LOW, tenant=name, job="reply", conversation="")
        for n, name in enumerate(names)
    ]


@given(moves)
def test_no_tenant_ever_has_more_than_its_window_on_a_queue(moves: list[tuple[bool, list[str], int]]) -> None:
    shares, queue = Shares({"globex": 2.0}), list[str]()
    for publishes, names, taken in moves:
        if publishes:
            shares.drained({Priority.LOW: len(queue)})
            allowed = shares.allowed(stubs(names), 10)
            shares.published(allowed)
            queue += [stub.tenant for stub in allowed]
            counts = Counter(queue)
            assert all(counts[tenant] <= (20 if tenant == "globex" else 10) for tenant in TENANTS)
            for tenant in set(names) - {stub.tenant for stub in allowed}:
                assert counts[tenant] >= 10  # whoever got nothing through had a full window
        else:
            queue = queue[taken:]


@given(st.dictionaries(tenants, st.integers(1, 60), min_size=1))
def test_everyone_has_their_turn_as_often_as_they_weigh(waiting: dict[str, int]) -> None:
    shares = Shares({"globex": 3.0})
    line = shares.turn({tenant: stubs([tenant] * count) for tenant, count in waiting.items()})
    assert Counter(stub.tenant for stub in line) == waiting
    if {"acme", "globex"} <= waiting.keys():
        both = [stub.tenant for stub in line if stub.tenant != "initech"]
        for end in range(1, len(both) + 1):
            seen = Counter(both[:end])
            if seen["acme"] < waiting["acme"] and seen["globex"] < waiting["globex"]:
                assert abs(seen["globex"] - 3 * seen["acme"]) <= 3


def test_a_window_is_what_is_worked_off_in_its_time() -> None:
    assert window_of(None, 10) == UNKNOWN
    assert window_of(0.0, 10) == LEAST
    assert window_of(300.0, 10) == 3000
    assert window_of(1e9, 10) == MOST
