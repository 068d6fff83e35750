"""Who is calling: the tenant behind the key in ``Authorization: Bearer``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from producer.api_keys import PREFIX, digest_of
from producer.ports import KeyRing
from producer.web.replies import Problem

REMEMBERED_S = 5.0
"""How long a key is believed without asking the ledger again: as long as a revoked one may still work."""

MOST_REMEMBERED = 10_000


class Access:
    """Knows whose key is whose, and asks the ledger now and then.

    Args:
        monotonic_s: a clock for waits.
    """

    def __init__(self, ring: KeyRing, monotonic_s: Callable[[], float]) -> None:
        self._ring = ring
        self._monotonic_s = monotonic_s
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()

    async def tenant(self, request: Request) -> str:
        """The caller's tenant.

        Raises:
            Problem: 401, for a missing, malformed, unknown or revoked key.
            LedgerUnavailable: nobody can be asked.
        """
        digest = self._digest(request)
        tenant, asked_at = self._known.get(digest, ("", 0.0))
        now = self._monotonic_s()
        if not tenant or now - asked_at > REMEMBERED_S:
            tenant = await run_in_threadpool(self._ring.tenant_of, digest) or ""
            self._remember(digest, tenant, now)
        if not tenant:
            raise _unknown("is no key that may send: unknown, revoked, or made for reviewing")
        return tenant

    def _digest(self, request: Request) -> str:
        """The digest of the key that a request bears; Problem 401 where it bears none."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key.startswith(PREFIX):
            raise _unknown("must be `Bearer tm_...`; make a key with `ticketmill key create`")
        return digest_of(key)

    def _remember(self, digest: str, tenant: str, now: float) -> None:
        self._known.pop(digest, None)
        if tenant:
            self._known[digest] = (tenant, now)
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)


def _unknown(message: str) -> Problem:
    return Problem(401, "Authorization", message, {"WWW-Authenticate": "Bearer"})
