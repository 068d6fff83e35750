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
    """Tickets that went to review for one reason, by what people made of them."""

    code: str
    reviewed: int
    honest: int
    abuse: int


class Report(msgspec.Struct, frozen=True):
    """What ``ticketmill gate report`` prints.

    Attributes:
        verdicts: all that were ever given, by action.
        honest_lost: estimated share of all tickets that were honest and rejected, from the rejected ones that went to
            review as a sample; None while nobody has decided on one.
        honest_lost_at_most: the upper end of its 95 % interval (Wilson).
    """

    rows: list[Row]
    verdicts: dict[str, int]
    honest_lost: float | None
    honest_lost_at_most: float | None


def report(decided: Iterable[Decision], counts: Mapping[tuple[str, str], int]) -> Report:
    """The table, from decisions and from the number of verdicts by action and code."""
    honest: Counter[str] = Counter()
    abuse: Counter[str] = Counter()
    for each in decided:
        (honest if each.honest else abuse)[each.code] += 1
    rows = [
        Row(code, honest[code] + abuse[code], honest[code], abuse[code]) for code in Code if honest[code] + abuse[code]
    ]
    verdicts: Counter[str] = Counter()
    for (action, _), count in counts.items():
        verdicts[action] += count
    share = _interval(honest[Code.SAMPLE], honest[Code.SAMPLE] + abuse[Code.SAMPLE])
    judged = sum(count for action, count in verdicts.items() if action != Action.THROTTLE)
    if share is None or not judged:
        return Report(rows, dict(verdicts), None, None)
    rejected = verdicts[Action.REJECT] / judged
    return Report(rows, dict(verdicts), round(share[0] * rejected, 6), round(share[1] * rejected, 6))


def _interval(hits: int, of: int) -> tuple[float, float] | None:
    """The share and the upper end of its interval."""
    if not of:
        return None
    share = hits / of
    middle = share + _Z**2 / (2 * of)
    spread = _Z * math.sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2))
    return share, min(1.0, (middle + spread) / (1 + _Z**2 / of))
