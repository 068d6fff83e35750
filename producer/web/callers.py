"""Who makes a request, and whether the gate lets it make one now."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from starlette.requests import Request

from producer.ports import Caller, Gate
from producer.web.access import Access
from producer.web.replies import Problem
from schemas.verdict import Action


class Threshold:
    """What every request to the API crosses, before anything of its body is read.

    Args:
        clock: the time of day.
    """

    def __init__(self, access: Access, gate: Gate, clock: Callable[[], datetime]) -> None:
        self._access = access
        self._gate = gate
        self._clock = clock

    async def crossed(self, request: Request) -> str:
        """The tenant whose key the caller holds.

        Raises:
            Problem: 401 for its key, 429 where it comes too often.
            LedgerUnavailable: nobody can say whose key it is.
        """
        tenant = await self._access.tenant(request)
        caller = Caller(
            address=request.client.host if request.client else "",
            agent=request.headers.get("user-agent", ""),
            key=self._access.digest(request)[:16],
            path=f"{request.method} {request.scope['route'].path}",
        )
        verdict = self._gate.knock(caller, self._clock())
        if verdict.action is Action.THROTTLE:
            raise throttled("request", "; ".join(verdict.reasons), verdict.retry_after_s or 1.0, verdict.code)
        return tenant


def throttled(field: str, why: str, wait_s: float, code: str) -> Problem:
    """429 and when to come back."""
    return Problem(429, field, why, {"Retry-After": str(max(1, round(wait_s)))}, code)
