"""Learns how letters follow one another, from word lists and translations that other packages carry.

Not part of a retraining: the tables of the shipped model are handed on. ``python -m ops.gate.ship`` makes them
anew with Django (BSD-3-Clause: its translated messages, 100 languages) and jieba (MIT: its dictionary) installed.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from producer.policy.text.folding import HAN, codes_of, kinds_of
from producer.policy.text.letters import (
    BITS_A_STEP,
    COMMON,
    CYRILLIC_SIZE,
    LATIN_SIZE,
    PAIR_BITS,
    Letters,
    han_pairs,
    places,
)
from schemas.errors import Refused

_PLACEHOLDER = re.compile(r"%\(\w+\)s|%\w|\{\w*\}|<[^>]*>")
_OFTEN = 5
_COMMON_PLANES = ("gb2312", "big5", "shift_jis", "euc_kr")


def learned() -> Letters:
    """The tables, from what the two packages hold.

    Raises:
        Refused: a package is not installed.
    """
    translations = _translations()
    corpus = [text for many in translations.values() for text in many]
    latin = _rarities(corpus, LATIN_SIZE, False)
    cyrillic = _rarities(corpus, CYRILLIC_SIZE, True)
    chinese = [*translations.get("zh_Hans", []), *translations.get("zh_Hant", [])]
    return Letters(latin, cyrillic, _pairs(chinese), _common())


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or not spec.origin:
        raise Refused(name, f"is not installed; pip install {name} to learn the letter tables anew")
    return Path(spec.origin).parent


def _translations() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(_package("django").rglob("locale/*/LC_MESSAGES/*.mo")):
        with path.open("rb") as file:
            messages = gettext.GNUTranslations(file)
        texts = [_PLACEHOLDER.sub(" ", text).lower() for text in messages._catalog.values() if isinstance(text, str)]  # pyright: ignore
        found.setdefault(path.parent.parent.name, []).extend(texts[1:])
    return found


def _rarities(texts: list[str], size: int, cyrillic: bool) -> npt.NDArray[np.uint8]:
    triples = np.zeros((size, size, size))
    for text in texts:
        numbers = places(codes_of(f"  {text.lower()} "), cyrillic).astype(np.intp)
        np.add.at(triples, (numbers[:-2], numbers[1:-1], numbers[2:]), 1)
    triples[:, :, 0] = 0
    pairs = triples.sum(axis=0)
    singles = pairs.sum(axis=0)
    single = (singles + 1) / (singles.sum() + size)
    double = (pairs + 20 * single) / (pairs.sum(axis=-1, keepdims=True) + 20)
    triple = (triples + 10 * double) / (triples.sum(axis=-1, keepdims=True) + 10)
    with np.errstate(divide="ignore"):
        rarities = np.clip(-np.log2(triple) * BITS_A_STEP, 0, 255).astype(np.uint8)
    rarities[:, :, 0] = 0
    return rarities


def _pairs(texts: Iterable[str]) -> npt.NDArray[np.bool_]:
    known = np.zeros(2**PAIR_BITS, np.bool_)
    for text in texts:
        codes = codes_of(text)
        known[han_pairs(codes, kinds_of(codes) == HAN)] = True
    for line in (_package("jieba") / "dict.txt").read_text(encoding="utf-8").splitlines():
        word, times, *_ = line.split()
        if int(times) >= _OFTEN and len(word) > 1:
            codes = codes_of(word)
            known[han_pairs(codes, kinds_of(codes) == HAN)] = True
    return known


def _common() -> npt.NDArray[np.bool_]:
    """Characters of the first levels of four national standards."""
    bits = np.zeros(COMMON, np.bool_)
    for place in range(COMMON):
        for plane in _COMMON_PLANES:
            try:
                lead = chr(0x4E00 + place).encode(plane)[0]
            except UnicodeEncodeError:
                continue
            if lead < {"gb2312": 0xD8, "big5": 0xC9, "shift_jis": 0x98, "euc_kr": 0xFE}[plane]:
                bits[place] = True
    return bits
