"""How many tickets of a tenant or a job may run at once, in the whole fleet. Pure.

What lies on a queue may begin at any moment, so it counts as running: a limit is kept by publishing no more than may
run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from schemas.envelope import Stub


class RunningLimits:
    """Counts what is on its way.

    Args:
        tenants, jobs: the most of each at once; who is not named has no limit.
    """

    def __init__(self, tenants: Mapping[str, int], jobs: Mapping[str, int]) -> None:
        self.tenants = tenants
        self.jobs = jobs
        self._under_way: dict[str, tuple[str, str]] = {}

    def __bool__(self) -> bool:
        return bool(self.tenants or self.jobs)

    @property
    def under_way(self) -> Collection[str]:
        """Ids of limited tickets that are published or run."""
        return self._under_way.keys()

    @property
    def full_jobs(self) -> frozenset[str]:
        """Jobs of which no more may be published now."""
        counts = Counter(job for _, job in self._under_way.values())
        return frozenset(job for job, most in self.jobs.items() if counts[job] >= most)

    def limits(self, stub: Stub) -> bool:
        """This ticket counts."""
        return stub.tenant in self.tenants or stub.job in self.jobs

    def know(self, under_way: Mapping[str, tuple[str, str]]) -> None:
        """These are under way, and no others: tenant and job by id."""
        self._under_way = dict(under_way)

    def keep(self, ids: Collection[str]) -> None:
        """Of those that were, only these still are."""
        self._under_way = {each: self._under_way[each] for each in ids}

    def allowed(self, stubs: Sequence[Stub]) -> list[Stub]:
        """Those of the tickets that may be published now, in their order; they count from now on."""
        tenants = Counter(tenant for tenant, _ in self._under_way.values())
        jobs = Counter(job for _, job in self._under_way.values())
        found: list[Stub] = []
        for stub in stubs:
            over_tenant = stub.tenant in self.tenants and tenants[stub.tenant] >= self.tenants[stub.tenant]
            over_job = stub.job in self.jobs and jobs[stub.job] >= self.jobs[stub.job]
            known = stub.id in self._under_way
            if known or not (over_tenant or over_job):
                found.append(stub)
                if self.limits(stub) and not known:
                    self._under_way[stub.id] = stub.tenant, stub.job
                    tenants[stub.tenant] += 1
                    jobs[stub.job] += 1
        return found

    def room(self, tenant: str) -> int | None:
        """How many more of a tenant's tickets may be published; None: any number."""
        most = self.tenants.get(tenant)
        if most is None:
            return None
        return max(0, most - sum(each == tenant for each, _ in self._under_way.values()))
