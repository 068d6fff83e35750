"""No more under way than the limits allow, whatever comes and goes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from producer.policy.running import RunningLimits
from schemas.envelope import Stub
from schemas.ticket import Priority

who = st.tuples(st.sampled_from(["acme", "globex"]), st.sampled_from(["reply", "triage"]))


@given(st.lists(st.tuples(st.lists(who, max_size=12), st.floats(0, 1)), max_size=20))
def test_the_limits_hold_and_nobody_waits_without_need(rounds: list[tuple[list[tuple[str, str]], float]]) -> None:
    limits = RunningLimits({"acme": 3}, {"triage": 2})
    under_way: dict[str, tuple[str, str]] = {}
    number = 0
    for came, ended in rounds:
        limits.keep([each for each in under_way if limits.limits(_stub(each, *under_way[each]))])
        stubs: list[Stub] = []
        for tenant, job in came:
            number += 1
            stubs.append(_stub(str(number), tenant, job))
        allowed = limits.allowed(stubs)
        under_way |= {stub.id: (stub.tenant, stub.job) for stub in allowed}
        tenants = Counter(tenant for tenant, _ in under_way.values())
        jobs = Counter(job for _, job in under_way.values())
        assert tenants["acme"] <= 3
        assert jobs["triage"] <= 2
        for stub in set(stubs) - set(allowed):
            assert (stub.tenant == "acme" and tenants["acme"] == 3) or (stub.job == "triage" and jobs["triage"] == 2)
        under_way = dict(list(under_way.items())[int(ended * len(under_way)) :])


def _stub(ticket_id: str, tenant: str, job: str) -> Stub:
    return Stub(id=ticket_id, delivery=1, priority=Priority.NORMAL, tenant=tenant, job=job, conversation="")
