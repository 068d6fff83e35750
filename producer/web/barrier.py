"""What every request crosses before anything of it is read, its key included: the gate may turn its sender away.

It stands before routes, keys and bodies, so that a crawler costs next to nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime

from starlette.types import ASGIApp, Receive, Scope, Send

from producer.ports import Caller, Gate
from producer.web.replies import refusal, throttled
from schemas.verdict import Action


class Barrier:
    """Answers 429 in place of the application where a sender comes too often.

    Args:
        clock: the time of day.
    """

    def __init__(self, app: ASGIApp, gate: Gate, clock: Callable[[], datetime]) -> None:
        self._app = app
        self._gate = gate
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            verdict = self._gate.knock(caller_of(scope), self._clock())
            if verdict.action is Action.THROTTLE:
                problem = throttled("request", "; ".join(verdict.reasons), verdict.retry_after_s or 1.0, verdict.code)
                await refusal(problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def caller_of(scope: Scope) -> Caller:
    """Who makes a request. The key is not checked here: one that is none is counted like any other."""
    key = agent = b""
    for name, value in scope["headers"]:
        if name == b"authorization":
            key = value
        elif name == b"user-agent":
            agent = value
    client = scope.get("client")
    return Caller(
        address=client[0] if client else "",
        agent=agent.decode("latin-1"),
        key=hashlib.blake2b(key, digest_size=8).hexdigest() if key else "",
        path=f"{scope['method']} {'/'.join(scope['path'].split('/', 3)[:3])}",
    )
