"""Hashed n-grams of a text, computed on whole arrays: a few microseconds a hundred characters, no dictionary.

A gram is hashed to a bucket of the model's table. Equal grams always meet in one bucket; different ones seldom do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from producer.policy.text.folding import DIGIT, HAN, KANA, LATIN, MARK, Codes, Kinds

Buckets = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint32]

LONGEST_GRAM = 5

_STEP = np.uint32(0x01000193)
_MIX = np.uint32(0x9E3779B1)
_SALT = (np.arange(1, 8, dtype=np.uint32) * np.uint32(0x85EBCA6B)).astype(np.uint32)


def char_grams(codes: Codes, longest: int = LONGEST_GRAM) -> list[Hashes]:
    """Hashes of all character grams of 1 to ``longest``; the n-th array has len(codes) - n + 1 entries."""
    rolled = (codes + np.uint32(0x51ED)) * _MIX
    plain = rolled
    grams = [rolled]
    for size in range(1, min(longest, len(codes))):
        rolled = (rolled[:-1] * _STEP) ^ plain[size:]
        grams.append(rolled)
    return grams


def word_spans(kinds: Kinds) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Starts and ends of words: unbroken letters, digits and marks. A Han or kana character is no word."""
    inside = np.zeros(len(kinds) + 2, np.bool_)
    _IN_WORD.take(kinds, out=inside[1:-1])
    edges = (inside[1:] != inside[:-1]).nonzero()[0]
    return edges[0::2], edges[1::2]


def word_hashes(codes: Codes, starts: npt.NDArray[np.intp], ends: npt.NDArray[np.intp]) -> Hashes:
    """One hash a word."""
    if not len(starts):
        return np.zeros(0, np.uint32)
    powers = _POWERS[: len(codes)]
    sums = np.zeros(len(codes) + 1, np.uint32)
    np.cumsum((codes + np.uint32(7)) * powers, out=sums[1:])
    return ((sums[ends] - sums[starts]) * _INVERSES[starts]) ^ (ends - starts).astype(np.uint32)


def char_buckets(grams: Sequence[Hashes], bits: int) -> Buckets:
    """The buckets, of 2 ** bits, of character grams, ascending, each once."""
    return _placed([gram + salt for gram, salt in zip(grams, _SALT, strict=False)], bits)


def word_buckets(words: Hashes, bits: int) -> Buckets:
    """The buckets of words and of pairs of words, ascending, each once."""
    if not len(words):
        return words
    return _placed([words + _SALT[5], ((words[:-1] * _STEP) ^ words[1:]) + _SALT[6]], bits)


def joined_grams(grams: Hashes, apart: int) -> Hashes:
    """Hashes of grams twice as long: each with the one that begins ``apart`` characters later."""
    return (grams[:-apart] * _STEP) ^ grams[apart:]


def _placed(hashes: list[Hashes], bits: int) -> Buckets:
    joined = np.concatenate(hashes)
    joined = (joined ^ (joined >> np.uint32(15))) * _MIX
    placed = joined >> np.uint32(32 - bits)
    placed.sort()
    if len(placed) < 2:
        return placed
    return placed[np.concatenate((_FIRST, placed[1:] != placed[:-1]))]


_FIRST = np.ones(1, np.bool_)
_LONGEST_TEXT = 16_384
_IN_WORD = np.array([(kind >= LATIN and kind not in (HAN, KANA)) or kind in (DIGIT, MARK) for kind in range(16)])
_BASE = 0x01000193
_POWERS: Hashes = np.cumprod(np.full(_LONGEST_TEXT, _BASE, np.uint32), dtype=np.uint32)
_INVERSES: Hashes = np.cumprod(np.full(_LONGEST_TEXT, pow(_BASE, -1, 2**32), np.uint32), dtype=np.uint32)
