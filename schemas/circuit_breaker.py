"""Settings of the circuit breakers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from schemas.units import Percent, Seconds


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class CpuBreakerSettings(_Section, frozen=True, kw_only=True):
    """The door's machine is too busy: it turns tickets away, backfill first and urgent ones last."""

    threshold: Percent = Percent(100)
    """Of the processors' time, without that of engines of ours; at 100 the breaker never opens."""
    duration: Seconds = Seconds(60.0)
    """Over the threshold for so long, it opens; well under it for so long, it closes."""
    action: Literal["reject_new"] = "reject_new"
    """What is done while it is open."""


class GpuBreakerSettings(_Section, frozen=True, kw_only=True):
    """The device is in trouble: tickets are answered on the processor until it is not."""

    memory_threshold: Percent = Percent(90)
    """Of the device's memory, once slots have been halved and memory reclaimed."""
    utilization_threshold: Percent = Percent(95)
    """Of its time; counts only while answers get slower, since a busy device is what it was bought for."""
    duration: Seconds = Seconds(30.0)
    """Over a threshold for so long, it opens; well under it for so long, it closes."""
    action: Literal["fallback_to_cpu"] = "fallback_to_cpu"
    """What is done while it is open."""


class UpstreamBreakerSettings(_Section, frozen=True, kw_only=True):
    """A remote model that fails is left alone, and its tickets wait off the queue until one of them gets through."""

    failures: Annotated[int, msgspec.Meta(ge=1)] = 5
    """So many calls that failed one after another open it."""
    open_for: Seconds = Seconds(10.0)
    """How long before a probe; twice as long each time the probe fails."""
    longest: Seconds = Seconds(300.0)
    """The longest that it stays open before the next probe."""


class CircuitBreakerSettings(_Section, frozen=True, kw_only=True):
    """What is left alone for a while because it fails or has too much to do. See docs/failures.md."""

    cpu: CpuBreakerSettings = CpuBreakerSettings()
    gpu: GpuBreakerSettings = GpuBreakerSettings()
    upstream: UpstreamBreakerSettings = UpstreamBreakerSettings()
