"""Settings of what gives way where there is too much to do, or too little memory."""

from __future__ import annotations

from typing import Annotated

import msgspec

from schemas.units import Seconds, Share

Count = Annotated[int, msgspec.Meta(ge=1)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ReclaimSettings(_Section, frozen=True, kw_only=True):
    """When a worker reclaims memory, step by step, for as long as it helps. See docs/failures.md."""

    failed_batches: Count = 3
    """So many batches that failed in a row."""
    fragmentation: Share = Share(0.25)
    """More than this share of what the allocator holds is in pieces that fit nobody."""
    timeouts: Share = Share(0.1)
    """More than this share of the latest requests ran out of time."""


class FairnessSettings(_Section, frozen=True, kw_only=True):
    """How tenants share the queues. What is over a tenant's window waits in the ledger and follows as it empties."""

    window: Seconds = Seconds(10.0)
    """Of each tenant and priority so much work lies on its queue, at the rate that workers have lately; 0: all."""
    weights: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}
    """By tenant: how many times the others' share it gets, where it is not 1."""


class LimitsSettings(_Section, frozen=True, kw_only=True):
    """How many tickets may run at once in the whole fleet, by tenant and by job. Who is not named has no limit."""

    tenants: dict[str, Count] = {}
    """The most of each tenant's."""
    jobs: dict[str, Count] = {}
    """The most of each job's."""

    @property
    def any(self) -> bool:
        """There is a limit."""
        return bool(self.tenants or self.jobs)


class SheddingSettings(_Section, frozen=True, kw_only=True):
    """How long a ticket may be expected to wait when it comes; beyond that the door says when to come back; 0: ever so
    long. The backfill waits in the ledger, let in more slowly as live work nears these, and urgent tickets always may.
    """

    low: Seconds = Seconds(3600.0)
    """Of low priority."""
    normal: Seconds = Seconds(3600.0)
    """Of normal priority."""
    high: Seconds = Seconds(1800.0)
    """Of high priority."""
