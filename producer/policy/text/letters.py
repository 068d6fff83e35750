"""How letters follow one another in real words: what tells a language from a hand that strikes keys at random."""

from __future__ import annotations

import unicodedata

import msgspec
import numpy as np
import numpy.typing as npt

from producer.policy.text.folding import CYRILLIC, HAN, LATIN, Codes, Kinds

LATIN_SIZE = 27
CYRILLIC_SIZE = 34
PAIR_BITS = 19
COMMON = 0x5200
BITS_A_STEP = 16.0
"""Rarities are kept in sixteenths of a bit, at most 15.9 bits."""


class Letters(msgspec.Struct, frozen=True):
    """The language tables.

    Attributes:
        latin: rarity of a letter after two others, shape (27, 27, 27), 0 being any end of a word.
        cyrillic: the same, shape (34, 34, 34).
        pairs: shape (2 ** PAIR_BITS,): is this pair of Han characters known?
        common: shape (COMMON,): is this Han character, counted from U+4E00, in everyday use?
    """

    latin: npt.NDArray[np.uint8]
    cyrillic: npt.NDArray[np.uint8]
    pairs: npt.NDArray[np.bool_]
    common: npt.NDArray[np.bool_]


class Strangeness(msgspec.Struct, frozen=True):
    """How unlike language a text's letters are.

    Attributes:
        rarity: mean bits a letter, over ``letters`` Latin or Cyrillic letters.
        unknown: share of Han pairs that are not known, over ``pairs``.
        rare: share of Han characters that are not in everyday use.
    """

    rarity: float = 0.0
    letters: int = 0
    unknown: float = 0.0
    pairs: int = 0
    rare: float = 0.0


def strangeness(codes: Codes, kinds: Kinds, counts: tuple[int, ...], letters: Letters) -> Strangeness:
    """Measures the letters of a masked text; zeros where it has none of these scripts."""
    rarity, many = 0.0, 0
    if counts[LATIN]:
        rarity, many = _rarity(_LATIN_PLACES, codes, letters.latin)
    if counts[CYRILLIC] > counts[LATIN]:
        rarity, many = _rarity(_CYRILLIC_PLACES, codes, letters.cyrillic)
    han = kinds == HAN
    if not counts[HAN] or not han.any():
        return Strangeness(rarity, many)
    keys = han_pairs(codes, han)
    unknown = 1.0 - np.count_nonzero(letters.pairs.take(keys)) / len(keys) if len(keys) else 0.0
    ordinals = codes[han] - np.uint32(0x4E00)
    everyday = np.count_nonzero(letters.common.take(np.minimum(ordinals, COMMON - 1)))
    return Strangeness(rarity, many, unknown, len(keys), 1.0 - everyday / len(ordinals))


def han_pairs(codes: Codes, han: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
    """Hashed places of every two adjoining Han characters."""
    first = (han[:-1] & han[1:]).nonzero()[0]
    mixed = (codes[first] * np.uint32(0x9E3779B1)) ^ (codes[first + 1] * np.uint32(0x85EBCA6B))
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
    return mixed >> np.uint32(32 - PAIR_BITS)


def places(codes: Codes, cyrillic: bool = False) -> npt.NDArray[np.uint8]:
    """The number of each letter in its table: 0 for whatever is none."""
    table = _CYRILLIC_PLACES if cyrillic else _LATIN_PLACES
    return table[np.minimum(codes, len(table) - 1)]


def _rarity(table: npt.NDArray[np.uint8], codes: Codes, rarities: npt.NDArray[np.uint8]) -> tuple[float, int]:
    size = len(rarities)
    numbers = np.zeros(len(codes) + 2, np.int32)
    numbers[2:] = table.take(codes, mode="clip")
    many = int(np.count_nonzero(numbers))
    if not many:
        return 0.0, 0
    steps = rarities.ravel().take((numbers[:-2] * size + numbers[1:-1]) * size + numbers[2:])
    return float(steps.sum(dtype=np.int64)) / many / BITS_A_STEP, many


def _latin_place(code: int) -> int:
    base = unicodedata.normalize("NFD", chr(code))[0].lower()
    return ord(base) - 96 if "a" <= base <= "z" else 0


_LATIN_PLACES = np.array([_latin_place(code) for code in range(0x250)] + [0], np.uint8)
_CYRILLIC_PLACES = np.zeros(0x461, np.uint8)
_CYRILLIC_PLACES[0x430:0x450] = np.arange(1, 33)
_CYRILLIC_PLACES[0x451] = 6
_CYRILLIC_PLACES[0x454:0x458] = 33
