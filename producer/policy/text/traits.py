"""A few dozen measures of a text that carry over from one channel of spam to another, and of how verse is laid out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from producer.policy.text.folding import DIGIT, EMOJI, POINT, SYMBOL
from producer.policy.text.masking import HANDLE, LINK, MAIL, PHONE, PRICE, TOKEN
from producer.policy.text.reading import Reading

Traits = npt.NDArray[np.float32]

NAMES = (
    "length", "links", "mails", "handles", "phones", "prices", "codes", "details", "capitals", "exclaims", "asks",
    "digits", "points", "symbols", "emoji", "mixed", "hidden", "ends_with_detail",
    "lines", "short_lines", "even_lines", "same_lines", "same_starts", "same_ends", "ends_with_letter",
)  # fmt: skip
"""What each trait measures; each lies in 0 to 1."""

SUSPECT = np.arange(NAMES.index("ends_with_detail") + 1)
"""Indices of those that may speak of spam; the rest are about the layout of lines."""


def traits(reading: Reading) -> Traits:
    """The traits of one text, shape (len(NAMES),)."""
    masked = reading.masked.text
    details = reading.masked.details
    counts = reading.counts
    chars = max(1, reading.chars)
    letters = max(1, reading.letters)
    row = [
        min(1.0, chars / 400),
        _some(masked.count(LINK)) if details else 0.0,
        _some(masked.count(MAIL)) if details else 0.0,
        _some(masked.count(HANDLE)) if details else 0.0,
        _some(masked.count(PHONE)) if details else 0.0,
        _some(masked.count(PRICE)) if details else 0.0,
        _some(masked.count(TOKEN)) if details else 0.0,
        min(1.0, sum(map(len, details)) / chars) if details else 0.0,
        min(1.0, reading.folded.capitals / letters),
        min(1.0, masked.count("!") / chars * 20),
        min(1.0, masked.count("?") / chars * 20),
        min(1.0, counts[DIGIT] / chars * 4),
        min(1.0, counts[POINT] / chars * 8),
        min(1.0, counts[SYMBOL] / chars * 20),
        min(1.0, counts[EMOJI] / chars * 10),
        min(1.0, reading.folded.mixed / 2),
        min(1.0, (reading.folded.hidden + reading.folded.spaced) / 2),
        float(bool(masked) and masked[-1] >= "\ue000" and masked[-1] <= "\ue00f"),
    ]
    return np.array([*row, *_layout(masked)], np.float32)


def _some(count: int) -> float:
    return min(1.0, count / 3)


_FLAT = (0.0,) * 7


def _layout(text: str) -> tuple[float, ...]:
    if "\n" not in text:
        return _FLAT
    lines = [line for line in text.split("\n") if line][:64]
    if len(lines) < 3:
        return _FLAT
    many = len(lines)
    lengths = sorted(map(len, lines))
    middle = lengths[many // 2]
    spread = lengths[many * 4 // 5] - lengths[many // 5]
    starts = {line[:4] if line.isascii() else line[:2] for line in lines}
    ends = {line.rstrip(".,;:!?-，。！？；、")[-2:] for line in lines}
    return (
        min(1.0, many / 16),
        float(4 <= middle <= 60),
        1.0 - min(1.0, spread / max(1, middle)),
        1.0 - len(set(lines)) / many,
        1.0 - len(starts) / many,
        1.0 - len(ends) / many,
        sum(line[-1].isalpha() or line[-1] in ",;:!?.，。；！" for line in lines) / many,
    )
