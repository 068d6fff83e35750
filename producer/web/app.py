"""The HTTP API as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from producer.adapters.clock import monotonic_s, utc_now
from producer.intake import Intake
from producer.load import Load
from producer.ports import Gate, KeyRing, Ledger
from producer.relay import Tray
from producer.web.access import Access
from producer.web.barrier import Barrier
from producer.web.group_commit import GroupCommit
from producer.web.openapi import document
from producer.web.replies import Problem, refusal, reply
from producer.web.tickets import TicketRoutes
from producer.web.waiting import Waiting
from schemas.errors import LedgerUnavailable, Refused
from schemas.settings import HttpSettings

RETRY_AFTER_S = 2
"""When to come back to a ledger that is away."""


def make_app(
    settings: HttpSettings,
    intake: Intake,
    gate: Gate,
    ledger: Ledger,
    keys: KeyRing,
    tray: Tray,
    load: Load,
    trouble: Callable[[], str],
    review: Sequence[Route],
) -> Starlette:
    """The API over the producer's parts.

    Args:
        gate: asked of every request before it is read.
        tray: where tickets that are durable are laid for the relay.
        load: says who is turned away because there is too much to do.
        trouble: why nothing can be published just now; empty while all is well.
        review: the routes of the review queue.
    """
    door = GroupCommit(intake, tray, utc_now)
    access = Access(keys, monotonic_s)
    most = {"most_bytes": settings.largest_body, "most_lines": settings.most_lines}
    tickets = TicketRoutes(access, door, ledger, Waiting(ledger, monotonic_s), load.turns_away, **most)

    async def health(_: Request) -> Response:
        return reply({"status": "ok"})

    async def ready(_: Request) -> Response:
        try:
            await run_in_threadpool(ledger.view, "", "")
        except LedgerUnavailable as error:
            return reply({"status": "unavailable", "ledger": str(error), "broker": trouble()}, 503)
        return reply({"status": "ready", "ledger": "", "broker": trouble()})

    async def openapi(_: Request) -> Response:
        return reply(document())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        await door.close()

    app = Starlette(
        routes=[
            Route("/v1/tickets", tickets.post, methods=["POST"]),
            Route("/v1/tickets", tickets.find, methods=["GET"]),
            Route("/v1/tickets/{ticket_id}", tickets.get, methods=["GET"]),
            Route("/healthz", health, methods=["GET"]),
            Route("/readyz", ready, methods=["GET"]),
            Route("/openapi.json", openapi, methods=["GET"]),
            *review,
        ],
        middleware=[Middleware(Barrier, gate=gate, clock=utc_now)],
        exception_handlers={
            Problem: _on_problem,
            Refused: _on_refused,
            LedgerUnavailable: _on_ledger_away,
            HTTPException: _on_http,
            Exception: _on_fault,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return refusal(error)


def _on_refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    # The field "ticket" is the body as a whole: no JSON, or no object.
    return refusal(Problem(400 if error.field == "ticket" else 422, error.field, error.why))


def _on_ledger_away(_: Request, error: Exception) -> Response:
    return refusal(Problem(503, "ledger", str(error), {"Retry-After": str(RETRY_AFTER_S)}))


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return refusal(Problem(404, "path", "is none of ours; see /openapi.json"))
    if error.status_code == 405:
        return refusal(Problem(405, "method", f"is not {request.method} here", error.headers))
    return refusal(Problem(error.status_code, "request", error.detail, error.headers))


def _on_fault(_: Request, error: Exception) -> Response:
    return refusal(Problem(500, "server", f"has a fault of its own ({type(error).__name__}); its log says more"))
