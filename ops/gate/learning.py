"""A new version of the gate from what people decided: the last layer's weights and the lines move, a little at a time.

The n-grams stay as they were trained: a few hundred decisions say nothing about a hundred thousand of them. What is
learned is how much wording, ticket-likeness, links and the rest weigh here, held to what they weighed before.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from ops.gate.decisions import Decision
from ops.gate.linear import Doubles, minimised
from producer.policy.text.content import ContentModel, features, gram_scores, spam_evidence
from producer.policy.text.reading import read
from producer.policy.text.traits import traits
from schemas.errors import Refused

LEAST = 20
"""Decisions of either kind that a new version needs."""

MOST_LOST = 0.0005
"""Of the honest texts that the model was calibrated on, the share that a new version may reject."""

STEP = 0.5
"""How far a line may move in one version, in log-odds."""

_HOLD = 10.0
"""Weights are held to the old ones as if by so many decisions."""


def learned(model: ContentModel, decided: Sequence[Decision]) -> ContentModel:
    """A model that agrees better with these decisions.

    Raises:
        Refused: there are too few of either kind, or the new one would lose more honest tickets than it may.
    """
    abuse = np.array([not each.honest for each in decided], np.float64)
    if min(abuse.sum(), len(abuse) - abuse.sum()) < LEAST:
        few = f"{int(abuse.sum())} rejected and {int(len(abuse) - abuse.sum())} accepted by people"
        raise Refused("decisions", f"are too few to learn from: {few}; {LEAST} of each are needed")
    rows = np.stack([_evidence(each.text, model) for each in decided]).astype(np.float64)
    weights = _fitted(rows, abuse, model.spam.astype(np.float64))
    odds, lines = rows @ weights, model.lines
    honest = np.sort(odds[abuse == 0])
    # Nearly every text that people let in lies under the line from which on texts are rejected.
    reject = _near(float(honest[int(0.98 * (len(honest) - 1))]) + 0.1, lines.reject)
    # Where people let in most of what wording alone had sent to them, it was sent too easily, and the other way round.
    worded = abuse[[each.code == "spam" for each in decided]]
    lean = 0.0 if len(worded) < LEAST else float(np.clip(0.5 - worded.mean(), -0.25, 0.25))
    review = min(reject, _near(lines.review + lean, lines.review))
    reject = max(reject, _least_reject(model, weights))
    if reject > lines.reject + STEP:
        raise Refused("decisions", f"would cost over {MOST_LOST:.2%} of honest customers; nothing is learned from them")
    moved = msgspec.structs.replace(lines, review=review, reject=reject, strict=review - (lines.review - lines.strict))
    new = msgspec.structs.replace(model, spam=weights.astype(np.float32), lines=moved)
    about = {**model.about, "learned": model.about.get("learned", 0) + len(decided)}
    return msgspec.structs.replace(new, about=about)


def honest_lost(model: ContentModel) -> float:
    """The share of the honest texts it was calibrated on that a model would reject."""
    over = int(np.count_nonzero(model.hardest.astype(np.float64) @ model.spam >= model.lines.reject))
    return over / max(1, model.honest)


def _least_reject(model: ContentModel, weights: Doubles) -> float:
    """Where the reject line must lie at least with these weights, so that no more honest texts are lost than may be."""
    odds = np.sort(model.hardest.astype(np.float64) @ weights)[::-1]
    return float(odds[min(len(odds) - 1, int(MOST_LOST * model.honest))]) + 0.01


def _evidence(text: str, model: ContentModel) -> np.ndarray:
    reading = read(text)
    spam, _, ticket = gram_scores(features(reading), model.grams, model.scale, model.bias).tolist()
    return spam_evidence(spam, ticket, traits(reading))


def _fitted(rows: Doubles, wanted: Doubles, before: Doubles) -> Doubles:
    """Weights that fit the decisions, held to those before."""

    def loss(weights: Doubles) -> tuple[float, Doubles]:
        odds = rows @ weights
        moved = weights - before
        value = float(np.sum(np.logaddexp(0, odds) - wanted * odds) + 0.5 * _HOLD * (moved @ moved))
        return value, rows.T @ (1 / (1 + np.exp(-np.clip(odds, -40, 40))) - wanted) + _HOLD * moved

    return minimised(loss, before)


def _near(wanted: float, before: float) -> float:
    return min(before + STEP, max(before - STEP, wanted))
