"""How right the gate was, as far as people have looked: a table, and how many honest tickets it may have lost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ops.gate.decisions import Decision
from schemas.verdict import Action, Code

_Z = 1.96


class Row(msgspec.Struct, frozen=True):
    """Tickets that the gate stopped for one reason, by what people made of them.

    Attributes:
        said: what the gate had said: reject or review.
    """

    said: str
    code: str
    judged: int
    honest: int
    abuse: int


class Report(msgspec.Struct, frozen=True):
    """What ``ticketmill gate report`` prints.

    Attributes:
        verdicts: all that were ever given, by action.
        honest_lost: estimated share of all tickets that were honest and rejected, from the rejected ones that a person
            looked at; None while there are none.
        honest_lost_at_most: the upper end of its 95 % interval (Wilson).
    """

    rows: list[Row]
    verdicts: dict[str, int]
    honest_lost: float | None
    honest_lost_at_most: float | None


def report(decided: Iterable[Decision], counts: Mapping[tuple[str, str], int]) -> Report:
    """The table, from decisions and from the number of verdicts by action and code."""
    tally = Counter((Action.REJECT if each.rejected else Action.REVIEW, each.code, each.honest) for each in decided)
    rows = [
        Row(said.value, code.value, honest + abuse, honest, abuse)
        for said in (Action.REJECT, Action.REVIEW)
        for code in Code
        if (honest := tally[said, code, True]) + (abuse := tally[said, code, False])
    ]
    verdicts: Counter[str] = Counter()
    for (action, _), count in counts.items():
        verdicts[action] += count
    looked_at = [row for row in rows if row.said == Action.REJECT]
    share = _interval(sum(row.honest for row in looked_at), sum(row.judged for row in looked_at))
    judged = sum(count for action, count in verdicts.items() if action != Action.THROTTLE)
    if share is None or not judged:
        return Report(rows, dict(verdicts), None, None)
    rejected = (verdicts[Action.REJECT] + counts.get((Action.REVIEW, Code.SAMPLE), 0)) / judged
    return Report(rows, dict(verdicts), round(share[0] * rejected, 6), round(share[1] * rejected, 6))


def _interval(hits: int, of: int) -> tuple[float, float] | None:
    """The share and the upper end of its interval."""
    if not of:
        return None
    share = hits / of
    middle = share + _Z**2 / (2 * of)
    spread = _Z * math.sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2))
    return share, min(1.0, (middle + spread) / (1 + _Z**2 / of))
