"""What a text is about, as linear models see it: how much like spam, like a ticket, like creative writing.

Three models read the words (hashed grams, contact details masked). A fourth weighs what they say together with the
text's traits: a link in what reads like a ticket is no sign of spam, the same link in anything else is.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from producer.policy.text.folding import HAN, KANA
from producer.policy.text.grams import Buckets, char_buckets, word_buckets
from producer.policy.text.letters import Letters
from producer.policy.text.reading import Reading
from producer.policy.text.traits import SUSPECT, Traits, traits

Floats = npt.NDArray[np.float32]

BITS = 17
"""Buckets of the hashed grams: 2 ** BITS, one signed byte each and topic."""

HARDEST = 200

TOPICS = ("spam", "creative", "ticket")


class Lines(msgspec.Struct, frozen=True):
    """Where the scores (log-odds) begin to count.

    Attributes:
        review: spam at or over it is reviewed.
        strict: the same while the source is under attack.
        reject: spam at or over it is rejected, unless it may be creative.
        creative: creative at or over it may be creative writing.
    """

    review: float
    strict: float
    reject: float
    creative: float


class ContentModel(msgspec.Struct, frozen=True):
    """What was learned.

    Attributes:
        grams: weights of the gram buckets, shape (2 ** BITS, len(TOPICS)); times ``scale`` they are log-odds.
        scale, bias: shape (len(TOPICS),).
        spam, creative: weights of ``spam_evidence`` and ``creative_evidence``; the last is the bias.
        letters: how letters follow one another.
        hardest: evidence of the honest texts that lie nearest to the reject line, shape (HARDEST, the spam weights'),
            scored by models that had not seen them; what is learned later must not reject them.
        honest: how many honest texts those were the hardest of.
        about: what it was trained on, for the person who asks.
    """

    grams: npt.NDArray[np.int8]
    scale: Floats
    bias: Floats
    spam: Floats
    creative: Floats
    lines: Lines
    letters: Letters
    hardest: npt.NDArray[np.float16]
    honest: int
    about: dict[str, Any]


class Content(msgspec.Struct, frozen=True):
    """Log-odds of one text."""

    spam: float
    creative: float


def content(reading: Reading, model: ContentModel) -> Content:
    """The scores of one text."""
    spam, creative, ticket = gram_scores(features(reading), model.grams, model.scale, model.bias).tolist()
    row = traits(reading)
    return Content(
        float(spam_evidence(spam, ticket, row) @ model.spam),
        float(creative_evidence(creative, spam, row) @ model.creative),
    )


class Features(msgspec.Struct, frozen=True):
    """The gram buckets present in a text, each once: of its characters and of its words."""

    chars: Buckets
    words: Buckets


def features(reading: Reading) -> Features:
    """What the topics are read from."""
    return Features(char_buckets(reading.grams, BITS), word_buckets(reading.words, BITS))


def gram_scores(present: Features, grams: npt.NDArray[np.int8], scale: Floats, bias: Floats) -> Floats:
    """Log-odds by topic, shape (len(TOPICS),): characters and words weigh in as two vectors, each of fixed length."""
    of_chars = grams.take(present.chars, axis=0).sum(axis=0, dtype=np.int32) * np.float32(
        char_value(len(present.chars))
    )
    if not len(present.words):
        return of_chars * scale + bias
    of_words = grams.take(present.words, axis=0).sum(axis=0, dtype=np.int32) * np.float32(
        word_value(len(present.words))
    )
    return (of_chars + of_words) * scale + bias


def char_value(many: int) -> float:
    """What each of so many different character grams counts."""
    return 1.0 / math.sqrt(max(1, many))


def word_value(many: int) -> float:
    """What each of so many different words and pairs counts."""
    return 0.7 / math.sqrt(max(1, many))


def says_enough(reading: Reading) -> bool:
    """Does it say enough to be judged by what it says? (A Han letter says as much as three others.)"""
    return reading.chars >= 12 and reading.letters + 2 * (reading.counts[HAN] + reading.counts[KANA]) >= 12


def spam_evidence(spam: float, ticket: float, row: Traits) -> Floats:
    """What the spam score is weighed from, shape (4 + 2 * len(SUSPECT) + 1,)."""
    suspect = row[SUSPECT]
    doubt = 1.0 / (1.0 + np.exp(np.float32(min(30.0, max(-30.0, ticket)))))
    own = np.array((spam, ticket, min(0.0, ticket), max(0.0, spam)), np.float32)
    return np.concatenate((own, suspect, suspect * doubt, _BIAS))


def creative_evidence(creative: float, spam: float, row: Traits) -> Floats:
    """What the creative score is weighed from, shape (2 + len(NAMES) + 1,)."""
    return np.concatenate((np.array((creative, spam), np.float32), row, _BIAS))


_BIAS: Floats = np.ones(1, np.float32)
