"""Text as the gate reads it: one form for what looks the same.

Compatibility forms become plain ones (NFKC), case is folded, invisible characters go, letters borrowed from another
alphabet inside a word become those they imitate. What was undone is counted: honest people seldom need undoing.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec
import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint32]
Kinds = npt.NDArray[np.uint8]

READ_CHARS = 6_144
"""A longer text is read in eight pieces spread evenly over it: no verdict costs more than one of this length."""

OTHER, SPACE, BREAK, DIGIT, POINT, SYMBOL, EMOJI, MARK, LATIN, CYRILLIC, GREEK, HAN, KANA, HANGUL, LETTER = range(15)
"""Kinds of character. MARK is a masked contact detail (see masking); LETTER any letter of a script not named."""

_PIECES = 8
_ASTRAL = 0x20000
_CONFUSABLES = {
    "а": "a", "в": "b", "с": "c", "ԁ": "d", "е": "e", "ё": "e", "ғ": "f", "ɡ": "g", "н": "h", "һ": "h", "і": "i",
    "ї": "i", "ј": "j", "к": "k", "ӏ": "l", "м": "m", "п": "n", "о": "o", "р": "p", "ԛ": "q", "г": "r", "ѕ": "s",
    "т": "t", "у": "y", "ѵ": "v", "ԝ": "w", "х": "x", "ү": "y", "з": "3", "ь": "b", "ч": "4",
    "α": "a", "β": "b", "ϲ": "c", "ε": "e", "η": "n", "ι": "i", "κ": "k", "ν": "v", "ο": "o", "ρ": "p", "σ": "o",
    "τ": "t", "υ": "u", "χ": "x", "γ": "y", "ω": "w", "ս": "u", "օ": "o", "ո": "n", "ց": "g", "հ": "h", "ı": "i",
    "ɑ": "a", "ʀ": "r", "ɴ": "n", "ᴀ": "a", "ᴄ": "c", "ᴅ": "d", "ᴇ": "e", "ᴋ": "k", "ᴍ": "m", "ᴏ": "o", "ᴘ": "p",
    "ᴛ": "t", "ᴜ": "u", "ᴠ": "v", "ᴡ": "w", "ᴢ": "z", "ʟ": "l", "ɪ": "i", "ʏ": "y", "ʙ": "b", "ɢ": "g", "ʜ": "h",
    "ᴊ": "j", "ꜱ": "s", "ꜰ": "f", "ø": "o", "ð": "d", "ł": "l", "đ": "d",
}  # fmt: skip
_UNMIX = str.maketrans(_CONFUSABLES)
_MIXED_WORD = re.compile(r"(?=[^\W\d_]*[a-z])(?=[^\W\d_]*[\u0370-\u03ff\u0400-\u052f\u0561-\u0587])[^\W\d_]{2,}")
_FOREIGN = re.compile(r"[\u0370-\u03ff\u0400-\u052f\u0561-\u0587]")
_SMALL_CAPS = re.compile(r"[\u1d00-\u1d22\u026a\u0262\u029c\u029f\u0280\u0299\u028f\u0274\ua730\ua731]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]|[\ue000-\ue00f\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_HIDDEN_IN_WORD = re.compile(
    "(?<=[A-Za-z\u0400-\u04ff\u4e00-\u9fff])[\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]+"
    "(?=[A-Za-z\u0400-\u04ff\u4e00-\u9fff])"
)
_STACKED = re.compile(r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0]{2,}")
_STYLED = re.compile("[\u249c-\u24e9\U0001d400-\U0001d7ff\U0001f110-\U0001f189]")
_SPACED_OUT = re.compile(r"(?<!\S)(?:[^\W\d_][ .·*_-]){3,}[^\W\d_](?!\S)")


class Folded(msgspec.Struct, frozen=True):
    """A text in its plain form.

    Attributes:
        text: folded and lower case, line breaks kept, every other blank a single space.
        capitals: how many letters were capitals.
        hidden: invisible characters that stood inside words.
        mixed: words that mixed alphabets.
        stacked: piles of two or more combining marks.
        styled: letters in ornamental forms (mathematical, circled, squared).
        spaced: runs of letters spaced out one by one.
        cut: the text was longer than READ_CHARS and was read in pieces.
    """

    text: str
    capitals: int = 0
    hidden: int = 0
    mixed: int = 0
    stacked: int = 0
    styled: int = 0
    spaced: int = 0
    cut: bool = False


def fold(raw: str) -> Folded:
    """The plain form of any text, however long or broken. Never raises."""
    cut = len(raw) > READ_CHARS
    if cut:
        raw = pieces(raw)
    hidden = mixed = stacked = styled = spaced = 0
    text = raw
    if not raw.isascii():
        hidden = len(_HIDDEN_IN_WORD.findall(raw))
        stacked = len(_STACKED.findall(raw))
        styled = len(_STYLED.findall(raw))
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", raw))
        if stacked:
            text = _STACKED.sub("", unicodedata.normalize("NFD", text))
    lower = text.lower()
    capitals = int(np.count_nonzero(codes_of(text) != codes_of(lower))) if len(text) == len(lower) else 0
    if not text.isascii():
        if _FOREIGN.search(lower):
            lower, mixed = _MIXED_WORD.subn(_unmixed, lower)
        if _SMALL_CAPS.search(lower):
            lower, small = _SMALL_CAPS.subn(_unmixed, lower)
            mixed += small // 4
    if _SPACED_OUT.search(lower):
        lower, spaced = _SPACED_OUT.subn(_joined, lower)
    plain = _BLANKS.sub(" ", _BREAKS.sub("\n", lower))
    if "\n" in plain:
        plain = _BREAK.sub("\n", plain)
    plain = plain.strip()
    return Folded(plain, capitals, hidden, mixed, stacked, styled, spaced, cut)


_BREAKS = re.compile(r"\r\n?|[\u2028\u2029\x0b\x0c\x85]")
_BLANKS = re.compile(r"[^\S\n ]+|  +")
_BREAK = re.compile(r" ?\n ?")


def _unmixed(word: re.Match[str]) -> str:
    return word[0].translate(_UNMIX)


def _joined(run: re.Match[str]) -> str:
    return run[0][::2]


def pieces(text: str) -> str:
    """READ_CHARS of a long text: eight pieces spread evenly, the first at its start, the last at its end."""
    size = READ_CHARS // _PIECES
    gap = (len(text) - size) / (_PIECES - 1)
    return "\n".join(text[round(i * gap) : round(i * gap) + size] for i in range(_PIECES))


def codes_of(text: str) -> Codes:
    """The code points of a text, shape (len(text),). Lone surrogates pass."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def kinds_of(codes: Codes) -> Kinds:
    """The kind of each character, same shape."""
    return _KINDS[np.minimum(codes, _ASTRAL - 1)]


def _kind(code: int) -> int:
    char = chr(code)
    if char == "\n":
        return BREAK
    category = unicodedata.category(char)
    if category[0] == "Z" or char == "\t":
        return SPACE
    if category[0] == "N":
        return DIGIT
    if 0xE000 <= code < 0xE010:
        return MARK
    if 0x1F000 <= code < 0x1FB00 or 0x2600 <= code < 0x27C0 or 0x2B00 <= code < 0x2C00:
        return EMOJI
    if category[0] == "P":
        return POINT
    if category[0] == "S":
        return SYMBOL
    if category[0] in "LM":
        return _script(code)
    return OTHER


def _script(code: int) -> int:
    for low, high, kind in _SCRIPTS:
        if low <= code < high:
            return kind
    return LETTER


_SCRIPTS = (
    (0x0041, 0x0250, LATIN),
    (0x0370, 0x0400, GREEK),
    (0x0400, 0x0530, CYRILLIC),
    (0x1100, 0x1200, HANGUL),
    (0x1E00, 0x1F00, LATIN),
    (0x1F00, 0x2000, GREEK),
    (0x2E80, 0x3000, HAN),
    (0x3040, 0x3100, KANA),
    (0x3400, 0x4DC0, HAN),
    (0x4E00, 0xA000, HAN),
    (0xAC00, 0xD7B0, HANGUL),
    (0xF900, 0xFB00, HAN),
)
_KINDS: Kinds = np.full(_ASTRAL, LETTER, np.uint8)
for _low, _high, _filled in _SCRIPTS:
    _KINDS[_low:_high] = _filled
for _low, _high in ((0, 0x2E80), (0x2FF0, 0x3400), (0xA000, 0xAC00), (0xD7B0, 0x10180), (0x1D000, 0x1FB00)):
    _KINDS[_low:_high] = np.fromiter(map(_kind, range(_low, _high)), np.uint8, _high - _low)
_KINDS[_ASTRAL - 1] = HAN  # stands for every code point from there on: rare Han characters
