"""Tickets over HTTP: one or many in, one or some out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from math import ceil
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from producer.intake import Incoming, TurnedAway
from producer.policy.shedding import Turned
from producer.ports import Ledger, Receipt
from producer.web.access import Access
from producer.web.bodies import read_body
from producer.web.group_commit import GroupCommit, Outcomes
from producer.web.replies import JSON, NDJSON, Problem, reply, throttled
from producer.web.waiting import OVER, Waiting, asked_wait_s
from schemas.errors import LedgerUnavailable, Refused
from schemas.replies import Accepted, Fault, Found, LineVerdict
from schemas.states import State
from schemas.ticket import Priority, decode_new_ticket

CHUNK = 500
"""Lines of one request written in one go, so that many at once do not make single tickets wait."""


class TicketRoutes:
    """The handlers of ``/v1/tickets``.

    Args:
        most_bytes: the largest body.
        most_lines: the most tickets in one request.
        turns_away: why a ticket of this priority is not taken in now.
    """

    def __init__(
        self,
        access: Access,
        door: GroupCommit,
        ledger: Ledger,
        waiting: Waiting,
        turns_away: Callable[[Priority], Turned | None],
        *,
        most_bytes: int,
        most_lines: int,
    ) -> None:
        self._access = access
        self._door = door
        self._ledger = ledger
        self._waiting = waiting
        self._turns_away = turns_away
        self._most_bytes = most_bytes
        self._most_lines = most_lines

    async def post(self, request: Request) -> Response:
        """Takes one ticket (JSON) or many (NDJSON)."""
        tenant = await self._access.tenant(request)
        kind = _content_type(request)
        wait_s = asked_wait_s(request)
        if wait_s and kind == NDJSON:
            raise Problem(422, "wait", "is for one ticket; many are answered later")
        body = await read_body(request.scope, request.receive, self._most_bytes)
        if kind == NDJSON:
            return await self._many(tenant, body)
        incoming = Incoming(ticket=decode_new_ticket(body), tenant=tenant)
        if turned := self._turns_away(incoming.ticket.priority):
            raise Problem(503, "priority", turned.why, {"Retry-After": str(ceil(turned.retry_after_s))})
        (outcome,) = await self._door.take_in([incoming])
        if isinstance(outcome, TurnedAway):
            raise _turned_away(outcome)
        where = {"Location": f"/v1/tickets/{outcome.ticket_id}"}
        if outcome.duplicate:
            view = await run_in_threadpool(self._ledger.view, tenant, outcome.ticket_id)
            if wait_s and view is not None and State(view.state) not in OVER:
                view = await self._waiting.view(request, tenant, outcome.ticket_id, wait_s) or view
            return reply(msgspec.structs.replace(view, duplicate=True) if view else None, 200, where)
        if outcome.state is State.REJECTED:
            raise Problem(422, "ticket", outcome.reason or "was rejected", where, outcome.code)
        if wait_s and outcome.state not in OVER:
            view = await self._waiting.view(request, tenant, outcome.ticket_id, wait_s)
            if view is not None and State(view.state) is State.IN_REVIEW:
                return reply(Accepted(id=view.id, state=State.IN_REVIEW), 202, where)
            if view is not None:
                return reply(view, 200, where)
        return reply(Accepted(id=outcome.ticket_id, state=outcome.state), 202, where)

    async def get(self, request: Request) -> Response:
        """One ticket with its answer."""
        tenant = await self._access.tenant(request)
        view = await run_in_threadpool(self._ledger.view, tenant, request.path_params["ticket_id"])
        if view is None:
            raise Problem(404, "id", "there is no such ticket")
        return reply(view)

    async def find(self, request: Request) -> Response:
        """Tickets by external id, and by source if one is given."""
        tenant = await self._access.tenant(request)
        asked = dict(request.query_params)
        external_id = asked.pop("external_id", "")
        source = asked.pop("source", "")
        if asked:
            raise Problem(422, next(iter(asked)), "is no parameter here; ask by external_id and source")
        if not external_id:
            raise Problem(422, "external_id", "is missing; name the ticket you are looking for")
        return reply(Found(await run_in_threadpool(self._ledger.find, tenant, external_id, source)))

    async def _many(self, tenant: str, body: bytes) -> Response:
        lines = body.split(b"\n")
        if sum(1 for line in lines if line.strip()) > self._most_lines:
            raise Problem(413, "body", f"is over {self._most_lines} lines, the most that one request may send")
        chunks = [
            [(number, line) for number, line in enumerate(lines[start : start + CHUNK], start + 1) if line.strip()]
            for start in range(0, len(lines), CHUNK)
        ]
        # The first chunk is written before anything is said: a ledger that is away is then a plain 503.
        first = await self._verdicts(tenant, chunks[0])

        async def verdicts() -> AsyncIterator[bytes]:
            yield _encoded(first)
            for chunk in chunks[1:]:
                try:
                    yield _encoded(await self._verdicts(tenant, chunk))
                except LedgerUnavailable as error:
                    away = Fault("ledger", str(error))
                    yield _encoded([LineVerdict(line=number, error=away, retry_after_s=1.0) for number, _ in chunk])

        return StreamingResponse(verdicts(), media_type=NDJSON)

    async def _verdicts(self, tenant: str, chunk: Sequence[tuple[int, bytes]]) -> list[LineVerdict]:
        incoming: dict[int, Incoming] = {}
        verdicts: dict[int, LineVerdict] = {}
        for number, line in chunk:
            try:
                came = Incoming(ticket=decode_new_ticket(line), tenant=tenant)
                if turned := self._turns_away(came.ticket.priority):
                    fault = Fault("priority", turned.why)
                    verdicts[number] = LineVerdict(line=number, error=fault, retry_after_s=turned.retry_after_s)
                else:
                    incoming[number] = came
            except Refused as error:
                verdicts[number] = LineVerdict(line=number, error=Fault(error.field, error.why))
        outcomes: Outcomes = await self._door.take_in(list(incoming.values())) if incoming else []
        for number, outcome in zip(incoming, outcomes, strict=True):
            verdicts[number] = _line(number, outcome)
        return [verdicts[number] for number, _ in chunk]


def _content_type(request: Request) -> str:
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if kind not in (JSON, NDJSON) or charset not in ("", "utf-8", "utf8"):
        raise Problem(415, "Content-Type", f"must be {JSON} or {NDJSON}, in UTF-8")
    return kind


def _turned_away(outcome: TurnedAway) -> Problem:
    if outcome.retry_after_s is None:
        return Problem(422, outcome.field, outcome.why)
    return throttled(outcome.field, outcome.why, outcome.retry_after_s, outcome.code)


def _line(number: int, outcome: Receipt | TurnedAway) -> LineVerdict:
    if isinstance(outcome, TurnedAway):
        fault = Fault(outcome.field, outcome.why, outcome.code)
        return LineVerdict(line=number, error=fault, retry_after_s=outcome.retry_after_s)
    rejected = outcome.state is State.REJECTED
    error = Fault("ticket", outcome.reason or "was rejected", outcome.code) if rejected else None
    return LineVerdict(line=number, id=outcome.ticket_id, state=outcome.state, duplicate=outcome.duplicate, error=error)


def _encoded(verdicts: list[Any]) -> bytes:
    return msgspec.json.Encoder().encode_lines(verdicts)
