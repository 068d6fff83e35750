"""What the API says: JSON in one shape for every answer, and for every refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from schemas.replies import Fault, Refusal

JSON = "application/json"
NDJSON = "application/x-ndjson"


class Problem(Exception):
    """A request that cannot be served as it is.

    Args:
        field: what is at fault: a field of the ticket, a header, a query parameter, or ``body``.
        code: the gate's reason, in one word.
    """

    def __init__(
        self, status: int, field: str, message: str, headers: Mapping[str, str] | None = None, code: str = ""
    ) -> None:
        super().__init__(f"{field}: {message}")
        self.status = status
        self.field = field
        self.message = message
        self.headers = dict(headers or {})
        self.code = code


def reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(content), status, headers, media_type=JSON)


def refusal(problem: Problem) -> Response:
    """The answer to a request that cannot be served."""
    return reply(Refusal(Fault(problem.field, problem.message, problem.code)), problem.status, problem.headers)


def throttled(field: str, why: str, wait_s: float, code: str) -> Problem:
    """429 and when to come back."""
    return Problem(429, field, why, {"Retry-After": str(max(1, round(wait_s)))}, code)
