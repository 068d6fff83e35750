"""Trains the gate's content model: plain numpy, the same result from the same texts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ops.gate.corpus import Sample, digest
from ops.gate.lessons import Lesson, lessons
from ops.gate.linear import Doubles, Examples, fitted
from producer.policy.text.content import (
    BITS,
    HARDEST,
    TOPICS,
    ContentModel,
    Features,
    Lines,
    char_value,
    creative_evidence,
    features,
    gram_scores,
    says_enough,
    spam_evidence,
    word_value,
)
from producer.policy.text.letters import Letters
from producer.policy.text.reading import read
from producer.policy.text.traits import traits

FOLDS = 5
_GRAM_PENALTY = 1e-5
_MIX_PENALTY = 1e-3
_LEAST_TEXTS = 2
"""A gram seen in fewer texts is left out: it says more of that text than of spam."""

_STEPS = 127


def trained(samples: Sequence[Sample], letters: Letters, seed: int = 11, copies: int = 5) -> ContentModel:
    """A model of these samples and of what is written for the project; lines are set on folds it did not learn from.

    Args:
        copies: texts written of each pattern.
    """
    taught = lessons(samples, random.Random(seed), copies)
    readings = [read(lesson.text) for lesson in taught]
    present = [features(reading) for reading in readings]
    rows = [traits(reading) for reading in readings]
    weight = np.array([lesson.weight for lesson in taught])
    wanted = [np.array([_is(topic, lesson) for lesson in taught]) for topic in TOPICS]
    unseen = _unseen(present, wanted, weight, np.array([int(lesson.group, 16) % FOLDS for lesson in taught]))
    spam_rows = np.array([spam_evidence(s[0], s[2], row) for s, row in zip(unseen, rows, strict=True)], np.float64)
    creative_rows = np.array(
        [creative_evidence(s[1], s[0], row) for s, row in zip(unseen, rows, strict=True)], np.float64
    )
    spam_mix = _mix(spam_rows, wanted[0], weight)
    creative_mix = _mix(creative_rows, wanted[1], weight)
    creative_mix[-1] -= creative_line(taught, creative_rows @ creative_mix)
    honest = spam_rows[[lesson.kind.startswith("honest") and lesson.altered in ("", "contacts") for lesson in taught]]
    grams, scale, bias = _quantised(_topics(present, wanted, weight))
    return ContentModel(
        grams=grams,
        scale=scale,
        bias=bias,
        spam=spam_mix.astype(np.float32),
        creative=creative_mix.astype(np.float32),
        lines=lines(taught, spam_rows @ spam_mix, np.array([says_enough(reading) for reading in readings])),
        letters=letters,
        hardest=_hardest(honest, spam_mix),
        honest=len(honest),
        about=_about(samples, taught),
    )


def _hardest(honest: Doubles, spam_mix: Doubles) -> npt.NDArray[np.float16]:
    """The honest rows with the highest scores; rows of nothing where there are too few."""
    rows = np.zeros((HARDEST, honest.shape[1]), np.float16)
    top = honest[np.argsort(honest @ spam_mix)[::-1][:HARDEST]]
    rows[: len(top)] = top
    rows[len(top) :, 0] = -1000.0
    return rows


def _unseen(
    present: Sequence[Features], wanted: list[npt.NDArray[np.bool_]], weight: Doubles, fold: npt.NDArray[np.intp]
) -> Doubles:
    """Gram scores of every lesson by models that have not seen its group, shape (lessons, topics)."""
    scores = np.zeros((len(present), len(TOPICS)))
    for number in range(FOLDS):
        inside, outside = np.flatnonzero(fold != number).tolist(), np.flatnonzero(fold == number).tolist()
        learned = _quantised(_topics([present[i] for i in inside], [each[inside] for each in wanted], weight[inside]))
        for i in outside:
            scores[i] = gram_scores(present[i], *learned)
    return scores


def lines(taught: Sequence[Lesson], odds: Doubles, enough: npt.NDArray[np.bool_]) -> Lines:
    """Lines that keep each kind of honest text under its share, on scores of models that had not seen it.

    Args:
        enough: which lessons say enough to be judged by it.
    """
    honest = np.array([lesson.kind.startswith("honest") and lesson.altered == "" for lesson in taught])
    contacts = np.array([lesson.kind.startswith("honest") and lesson.altered == "contacts" for lesson in taught])
    ham = np.array([lesson.kind == "ham" and lesson.altered == "" for lesson in taught])

    def line(among: Doubles, shares: tuple[float, float, float]) -> float:
        return max(_top(among[kind], share) for kind, share in zip((honest, contacts, ham), shares, strict=True))

    odds = np.where(enough, odds, -20.0)
    review = line(odds, _REVIEWED)
    reject = max(review, line(odds, _REJECTED)) + _MARGIN
    return Lines(review=review, strict=min(review, line(odds, _STRICTLY)), reject=reject, creative=0.0)


_REVIEWED = (0.003, 0.010, 0.030)
_REJECTED = (0.0005, 0.0006, 0.0060)
_STRICTLY = (0.008, 0.025, 0.08)
"""Shares of honest tickets, of those with contact details put in, and of ham that may lie over each line."""

_MARGIN = 0.1


def creative_line(taught: Sequence[Lesson], odds: Doubles) -> float:
    """Where creative begins: under all but one in fifty of the creative texts, however altered."""
    creative = odds[[lesson.kind == "creative" and lesson.altered in ("", "part") for lesson in taught]]
    return float(np.quantile(creative, 0.02)) if len(creative) else 0.0


def _top(odds: Doubles, share: float) -> float:
    """The score that ``share`` of these lie over; far below all where there are none."""
    if not len(odds):
        return -10.0
    return float(np.sort(odds)[::-1][int(share * len(odds))])


def _is(topic: str, lesson: Lesson) -> bool:
    return lesson.kind.startswith("honest") if topic == "ticket" else lesson.kind == topic


def _topics(present: Sequence[Features], wanted: list[npt.NDArray[np.bool_]], weight: Doubles) -> Doubles:
    """Weights of the grams, one column a topic, the biases in the last row."""
    index = np.concatenate([part for row in present for part in (row.chars, row.words)])
    chars = [np.full(len(row.chars), char_value(len(row.chars))) for row in present]
    words = [np.full(len(row.words), word_value(len(row.words))) for row in present]
    value = np.concatenate([part for pair in zip(chars, words, strict=True) for part in pair])
    lengths = np.array([len(row.chars) + len(row.words) for row in present])
    times = np.bincount(index, minlength=2**BITS)
    used = times > 0  # the fit works on those alone: a small set of texts has few
    index = (np.cumsum(used) - 1)[index].astype(np.uint32)
    columns = np.zeros((2**BITS + 1, len(wanted)))
    for topic, each in enumerate(wanted):
        telling = _telling(index, lengths, each, weight)
        examples = Examples(index, value * telling[index], lengths, np.zeros((len(present), 0)), len(telling))
        column = fitted(examples, each, weight, _GRAM_PENALTY)
        columns[:-1, topic][used] = column[:-1] * telling * (times[used] >= _LEAST_TEXTS)
        columns[-1, topic] = column[-1]
    return columns


def _telling(
    index: npt.NDArray[np.uint32], lengths: npt.NDArray[np.intp], wanted: npt.NDArray[np.bool_], weight: Doubles
) -> Doubles:
    """How much each gram tells by itself: the root of its log ratio between wanted texts and others, 1 on average.

    A gram that tells more is held less tightly (as in Wang and Manning's NB-SVM), which keeps a fit on few texts from
    leaning on the many grams that only happen to lie on one side.
    """

    def share(of: npt.NDArray[np.bool_]) -> Doubles:
        return np.bincount(index, weights=np.repeat(weight * of, lengths)) / weight[of].sum()

    telling = np.sqrt(np.abs(np.log((share(wanted) + _SMALLEST_SHARE) / (share(~wanted) + _SMALLEST_SHARE))))
    return telling / np.sqrt(np.mean(telling[index] ** 2))


_SMALLEST_SHARE = 1e-3
"""Added to the share of texts that hold a gram: a gram seen once tells little."""


def _quantised(columns: Doubles) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    grams = columns[:-1]
    scale = np.maximum(np.quantile(np.abs(grams), 0.9998, axis=0), 1e-9) / _STEPS
    small = np.clip(np.round(grams / scale), -_STEPS, _STEPS).astype(np.int8)
    return small, scale.astype(np.float32), columns[-1].astype(np.float32)


def _mix(evidence: Doubles, wanted: npt.NDArray[np.bool_], weight: Doubles) -> Doubles:
    """Weights of the evidence, its last column being the bias."""
    rows = len(evidence)
    nothing = Examples(np.zeros(rows, np.uint32), np.zeros(rows), np.ones(rows, np.intp), evidence[:, :-1], 1)
    return fitted(nothing, wanted, weight, _MIX_PENALTY)[1:]


def _about(samples: Sequence[Sample], taught: Sequence[Lesson]) -> dict[str, Any]:
    kinds = sorted({sample.kind for sample in samples})
    return {
        "texts": {kind: sum(sample.kind == kind for sample in samples) for kind in kinds},
        "lessons": len(taught),
        "channels": sorted({sample.channel for sample in samples}),
        "digest": digest(list(samples)),
    }
