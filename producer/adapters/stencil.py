"""Messages that differ in nothing but their ticket's id are written once and then cut to each id."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from schemas.envelope import Stub

_BLANK = str(uuid.uuid4())
"""An id that nothing else in a message can be."""

_BLANK_BYTES = _BLANK.encode()
_BLANK_64 = base64.b64encode(_BLANK_BYTES)


class Stencil:
    """Writes messages some times faster than ``write`` does.

    Args:
        write: makes one message. An id in it may stand as it is, or in base64 beginning at a multiple of three bytes,
            as it does in a message's body on Redis. Ids are all of one length: 36.
    """

    def __init__(self, write: Callable[[Stub], bytes]) -> None:
        self._write = write
        self._blank: Callable[..., bytes] = lru_cache(maxsize=1024)(self._written_blank)

    def __call__(self, stubs: Sequence[Stub]) -> list[bytes]:
        """One message a stub, in order."""
        return [self._cut(stub) for stub in stubs]

    def _cut(self, stub: Stub) -> bytes:
        if stub.conversation or len(stub.id) != len(_BLANK):
            return self._write(stub)  # as many kinds as there are conversations: none would be met again
        blank = self._blank(stub.delivery, stub.priority, stub.tenant, stub.job)
        ticket_id = stub.id.encode()
        return blank.replace(_BLANK_64, base64.b64encode(ticket_id)).replace(_BLANK_BYTES, ticket_id)

    def _written_blank(self, delivery: int, priority: Any, tenant: str, job: str) -> bytes:
        return self._write(Stub(id=_BLANK, delivery=delivery, priority=priority, tenant=tenant, job=job))
