"""The retry matrix: what follows each kind of failure. Data, which settings may overrule row by row."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from schemas.units import Seconds


class Then(StrEnum):
    """What is done once a kind of failure has no retries left.

    ``cache``: answer with what the same question got before, or park. ``sync``: answer alone, on the model's fallback,
    or park. ``park``: wait off the queue until the upstream recovers. ``reclaim``: free memory and split the batch; a
    ticket that is alone already is given up. ``dead``: give up.
    """

    CACHE = "cache"
    SYNC = "sync"
    PARK = "park"
    RECLAIM = "reclaim"
    DEAD = "dead"


class RetryRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of failure.

    Attributes:
        delay: the shortest time before the first retry; later ones may take twice as long each.
        retries: the most retries.
        then: what is done after the last of them.
    """

    delay: Seconds
    retries: Annotated[int, msgspec.Meta(ge=0, le=100)]
    then: Then


def _row(delay: float, retries: int, then: Then) -> RetryRow:
    return RetryRow(delay=Seconds(delay), retries=retries, then=then)


RETRY_MATRIX: dict[str, RetryRow] = {
    "429": _row(0.2, 3, Then.CACHE),
    "503": _row(0.5, 2, Then.SYNC),
    "out_of_memory": _row(0, 0, Then.RECLAIM),
    "408": _row(0.5, 2, Then.SYNC),
    "500": _row(1, 2, Then.SYNC),
    "502": _row(0.5, 3, Then.SYNC),
    "504": _row(1, 2, Then.SYNC),
    "timeout": _row(1, 2, Then.SYNC),
    "connection": _row(0.5, 3, Then.SYNC),
    "bad_response": _row(0.5, 2, Then.SYNC),
    "forbidden": _row(0, 0, Then.PARK),
    "refused": _row(0, 0, Then.DEAD),
    "invalid_answer": _row(0, 1, Then.DEAD),
    "context_overflow": _row(0, 0, Then.DEAD),
    "engine": _row(1, 3, Then.DEAD),
    "time_limit": _row(1, 3, Then.DEAD),
}
"""The numbers are HTTP statuses of an upstream; 500 stands for every other 5xx too. ``timeout`` and ``connection``: no
answer in time, or none at all. ``bad_response``: one that is no chat completion. ``forbidden``: 401, 403 or 404, which
the operator must mend. ``refused``: any other 4xx. ``invalid_answer``: it does not satisfy the job's schema, even after
a repair. ``engine``: the engine on this machine failed with this ticket alone. ``time_limit``: too long in its slot."""
