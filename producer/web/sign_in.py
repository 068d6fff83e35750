"""Signing in to the review page: a key once, then a cookie that no script can read and no other site can use."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from producer.api_keys import PREFIX, digest_of
from producer.policy.review import Attempts
from producer.ports import KeyRing, Sessions
from producer.web.bodies import read_body
from producer.web.replies import Problem, reply
from schemas.refusal import explained
from schemas.review import Holder

COOKIE = "ticketmill_session"

HEADER = "x-ticketmill-review"
"""Comes with every request of the page that changes something. Another site's page cannot send it without asking us
first, and we allow nobody."""

MOST_KEY_BYTES = 1_000


class SignIn:
    """Who is at the page, or calls the review API.

    Args:
        lasts: how long a session lasts.
        clock: the time of day.
    """

    def __init__(self, ring: KeyRing, sessions: Sessions, lasts: timedelta, clock: Callable[[], datetime]) -> None:
        self._ring = ring
        self._sessions = sessions
        self._lasts = lasts
        self._clock = clock
        self._attempts = Attempts()

    async def begin(self, request: Request) -> Response:
        """``POST /v1/session``: a session for the key in the body, as a cookie."""
        _check_same_site(request)
        body = await read_body(request.scope, request.receive, MOST_KEY_BYTES)
        try:
            key = msgspec.json.decode(body, type=_Credentials).key.strip()
        except (msgspec.DecodeError, UnicodeError) as error:
            field, why = explained(error, _Credentials, "a field here")
            raise Problem(400, field or "body", why) from None
        holder = await self._known(request, key)
        if not holder.role.reviews:
            raise _not_for_reviewing()
        token = secrets.token_urlsafe(32)
        now = self._clock()
        await run_in_threadpool(self._sessions.begin_session, digest_of(token), holder, now + self._lasts, now)
        answer = reply(holder)
        answer.set_cookie(
            COOKIE, token, round(self._lasts.total_seconds()), path="/v1/", secure=_encrypted(request),
            httponly=True, samesite="strict",
        )  # fmt: skip
        return answer

    async def show(self, request: Request) -> Response:
        """``GET /v1/session``: who is signed in."""
        return reply(await self.reviewer(request))

    async def end(self, request: Request) -> Response:
        """``DELETE /v1/session``: signs out."""
        _check_same_site(request)
        if token := request.cookies.get(COOKIE):
            await run_in_threadpool(self._sessions.end_session, digest_of(token))
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path="/v1/")
        return answer

    async def reviewer(self, request: Request) -> Holder:
        """Who asks: the bearer of a key, or who is signed in.

        Raises:
            Problem: 401 for nobody, 403 for a key that may not review or a request from another site, 429 for an
                address that has tried too many keys.
            LedgerUnavailable: nobody can be asked.
        """
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            holder = await self._known(request, key.strip())
        else:
            if request.method not in ("GET", "HEAD"):
                _check_same_site(request)
            token = request.cookies.get(COOKIE, "")
            found = await run_in_threadpool(self._sessions.in_session, digest_of(token), self._clock())
            if found is None:
                raise Problem(401, "session", "is over, or there was none; sign in with a key")
            holder = found
        if not holder.role.reviews:
            raise _not_for_reviewing()
        return holder

    async def _known(self, request: Request, key: str) -> Holder:
        address = request.client.host if request.client else ""
        if wait_s := self._attempts.wait_s(address, self._clock()):
            after = {"Retry-After": str(max(1, round(wait_s)))}
            raise Problem(429, "key", f"too many wrong keys came from {address}; wait {wait_s:.0f} s", after)
        holder = await run_in_threadpool(self._ring.holder, digest_of(key)) if key.startswith(PREFIX) else None
        if holder is None:
            self._attempts.failed(address, self._clock())
            raise Problem(401, "key", "is no key of ours, or one that was revoked")
        return holder


class _Credentials(msgspec.Struct, forbid_unknown_fields=True):
    key: str


def _check_same_site(request: Request) -> None:
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    if HEADER not in request.headers or (origin is not None and origin.partition("://")[2] != host):
        raise Problem(403, "Origin", f"must be the review page's own, and {HEADER} must be sent with it")


def _encrypted(request: Request) -> bool:
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def _not_for_reviewing() -> Problem:
    return Problem(
        403, "key", "may send tickets, not review them; make one with `ticketmill key create --role reviewer`"
    )
