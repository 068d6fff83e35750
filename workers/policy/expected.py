"""How many tokens of KV a ticket will take, learned per job, so that running out of memory is foreseen and not met."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

RATE = 0.02
"""The weight of the latest answer: what counts is about the last fifty."""
LEARNED = 20
"""Answers after which a job's lengths are known. Before that the worst case counts."""


class Tokens(NamedTuple):
    """A length that is not known yet, in tokens: its mean, and how far from it lengths usually are."""

    mean: float
    spread: float


class ExpectedTokens:
    """The tokens that a row takes for itself: its prompt, without the prefix that it shares, and its answer."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Lengths] = {}

    def of(self, job: str, text_bytes: int, most_new: int) -> Tokens:
        """What a ticket of this job is expected to take.

        Args:
            text_bytes: of its text in UTF-8; no tokenizer makes more tokens of it than that.
            most_new: the longest answer, in tokens.
        """
        seen = self._jobs.get(job)
        if seen is None or seen.count < LEARNED:
            return Tokens(text_bytes + most_new, 0.0)
        prompt, answer = seen.prompt_per_byte, seen.answer
        mean = min(1.0, prompt.mean) * text_bytes + min(most_new, answer.mean)
        return Tokens(mean, math.hypot(prompt.spread * text_bytes, answer.spread))

    def learn(self, job: str, text_bytes: int, prompt: int, answer: int) -> None:
        """A ticket of this job took so many tokens."""
        seen = self._jobs.setdefault(job, _Lengths())
        seen.count += 1
        weight = max(RATE, 1 / seen.count)
        seen.prompt_per_byte.follow(prompt / max(1, text_bytes), weight)
        seen.answer.follow(answer, weight)


class _Average(msgspec.Struct):
    """Exponentially weighted mean and variance of a stream."""

    mean: float = 0.0
    variance: float = 0.0

    @property
    def spread(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)

    def follow(self, seen: float, weight: float) -> None:
        """Takes in what was seen."""
        off = seen - self.mean
        self.mean += weight * off
        self.variance = (1 - weight) * (self.variance + weight * off * off)


class _Lengths(msgspec.Struct):
    count: int = 0
    prompt_per_byte: _Average = msgspec.field(default_factory=_Average)
    answer: _Average = msgspec.field(default_factory=_Average)
