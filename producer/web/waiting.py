"""Requests that wait for their ticket's answer: one look at the ledger now and then serves them all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from producer.ports import Ledger
from producer.web.replies import Problem
from schemas.answer import TicketView
from schemas.errors import LedgerUnavailable
from schemas.states import FINAL, State
from schemas.units import Seconds

LONGEST_S = 60.0
MOST = 1000
"""Requests that may wait at once; one more gets what it would have got without waiting."""

LOOK_S = 0.1
"""Between two looks; longer where a look takes long, so that looking never is most of the work."""

OVER = FINAL | {State.IN_REVIEW}
"""Where a ticket stays longer than anyone should wait."""


def asked_wait_s(request: Request) -> float:
    """What ``?wait=`` asks for, in seconds; 0 if it does not.

    Raises:
        Problem: 422, for what is no duration or too long a one.
    """
    text = request.query_params.get("wait", "")
    if not text:
        return 0.0
    try:
        wait_s = float(Seconds.parse(text))
    except ValueError as error:
        raise Problem(422, "wait", str(error)) from None
    if wait_s > LONGEST_S:
        raise Problem(422, "wait", f"is over {LONGEST_S:g} s; ask for the ticket again later instead")
    return wait_s


class Waiting:
    """See the module. Belongs to the event loop.

    Args:
        monotonic_s: a clock for waits.
    """

    def __init__(self, ledger: Ledger, monotonic_s: Callable[[], float]) -> None:
        self._ledger = ledger
        self._monotonic_s = monotonic_s
        self._waiters: dict[tuple[str, str], list[asyncio.Future[TicketView]]] = {}
        self._count = 0
        self._looking: asyncio.Task[None] | None = None

    async def view(self, request: Request, tenant: str, ticket_id: str, within_s: float) -> TicketView | None:
        """The ticket as it ended; None if it did not within that time, or whoever asked has gone."""
        if self._count >= MOST:
            return None
        ended: asyncio.Future[TicketView] = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault((tenant, ticket_id), [])
        waiters.append(ended)
        self._count += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        gone = asyncio.create_task(_gone(request))
        try:
            await asyncio.wait({ended, gone}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else None
        finally:
            gone.cancel()
            self._count -= 1
            waiters.remove(ended)
            if not waiters:
                self._waiters.pop((tenant, ticket_id), None)

    async def _look(self) -> None:
        """Looks until nobody waits any more."""
        try:
            while self._waiters:
                began_s = self._monotonic_s()
                with suppress(LedgerUnavailable):  # they wait on: it may be back within their time
                    await self._tell(list(self._waiters))
                await asyncio.sleep(max(LOOK_S, 3 * (self._monotonic_s() - began_s)))
        finally:
            self._looking = None

    async def _tell(self, wanted: list[tuple[str, str]]) -> None:
        by_tenant: dict[str, list[str]] = {}
        for tenant, ticket_id in wanted:
            by_tenant.setdefault(tenant, []).append(ticket_id)
        for tenant, ids in by_tenant.items():
            views = await run_in_threadpool(self._ledger.views, tenant, ids)
            for ticket_id, view in views.items():
                if State(view.state) in OVER:
                    for waiter in self._waiters.get((tenant, ticket_id), ()):
                        if not waiter.done():
                            waiter.set_result(view)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
