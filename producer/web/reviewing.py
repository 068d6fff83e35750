"""The review queue over HTTP, as routes: its page, its sign-in and its API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from producer.ports import KeyRing, ReviewLists, Reviews, Sessions
from producer.web.reviews import ReviewRoutes
from producer.web.sign_in import SignIn

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Nothing inline runs, nothing comes from elsewhere, and text cannot become markup even if our script had a fault."""

_FILES = {
    "/review": ("page.html", "text/html"),
    "/review.css": ("page.css", "text/css"),
    "/review.js": ("page.js", "text/javascript"),
}


def review_routes(
    keys: KeyRing,
    sessions: Sessions,
    reviews: Reviews,
    lists: ReviewLists,
    session_lasts: timedelta,
    clock: Callable[[], datetime],
) -> list[Route]:
    """Everything under ``/review``, ``/v1/session`` and ``/v1/reviews``."""
    sign_in = SignIn(keys, sessions, session_lasts, clock)
    api = ReviewRoutes(sign_in, reviews, lists, clock)
    return [
        *(Route(path, _file(*named), methods=["GET"]) for path, named in _FILES.items()),
        Route("/v1/session", sign_in.begin, methods=["POST"]),
        Route("/v1/session", sign_in.show, methods=["GET"]),
        Route("/v1/session", sign_in.end, methods=["DELETE"]),
        Route("/v1/reviews", api.page, methods=["GET"]),
        Route("/v1/reviews", api.order, methods=["POST"]),
        Route("/v1/reviews.csv", api.export, methods=["GET"]),
        Route("/v1/reviews/{ticket_id}", api.sheet, methods=["GET"]),
    ]


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("producer.web").joinpath("review", name).read_bytes()

    async def serve(_: Request) -> Response:
        return Response(content, headers=_HEADERS, media_type=kind)

    return serve


_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
