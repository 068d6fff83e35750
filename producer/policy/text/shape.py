"""What can be seen of a flood without knowing its language: runs, repetition, blanks, letters at random, disguise.

Every limit depends on how long the text is: a short one repeats by accident and holds few different characters by
need. Logs, tables and dumps repeat by nature and are held to milder limits; angry punctuation is squeezed first.
"""

from __future__ import annotations

import math
import re

import msgspec
import numpy as np
import numpy.typing as npt

from producer.policy.text.folding import (
    BREAK,
    CYRILLIC,
    DIGIT,
    EMOJI,
    GREEK,
    HAN,
    HANGUL,
    KANA,
    LATIN,
    LETTER,
    OTHER,
    POINT,
    SPACE,
    SYMBOL,
    Codes,
    Kinds,
)
from producer.policy.text.grams import char_grams, joined_grams
from producer.policy.text.letters import Letters, strangeness
from producer.policy.text.masking import LINK
from producer.policy.text.reading import Reading

Flags = npt.NDArray[np.bool_]

SHORTEST = 8
"""No text of fewer characters is judged by its shape: it has none."""

_HALF = 4
"""Repetition is looked for in grams of twice this many characters: shorter ones recur in any language."""


class ShapeLimits(msgspec.Struct, frozen=True):
    """The ``text_pattern`` settings. Neither is ever exceeded, whatever else the gate has learned.

    Attributes:
        max_repeat_char: largest share of a long text that one character may have.
        min_entropy: bits a character that a long text must have.
    """

    max_repeat_char: float = 0.5
    min_entropy: float = 3.0


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a text's shape.

    Attributes:
        name: of the signal, as in a verdict's scores.
        measure: what it measured.
        certain: nothing honest looks like this, whatever its content.
        why: a sentence for the person who asks. It quotes nothing of the text.
    """

    name: str
    measure: float
    certain: bool
    why: str


def faults(reading: Reading, letters: Letters, limits: ShapeLimits, pressure: float = 0.0) -> list[Fault]:
    """Everything wrong with a text's shape; ``pressure`` 0 to 1 (its source is under attack) narrows the limits."""
    found: list[Fault] = []
    chars = reading.chars
    if reading.raw_chars > 400 and chars < reading.raw_chars * 0.1 and not reading.folded.cut:
        share = 1 - chars / reading.raw_chars
        found.append(Fault("blank", share, chars < 20, f"{share:.0%} of the text is blank or invisible"))
    if chars < SHORTEST:
        return found
    ease = 1.0 - 0.25 * pressure
    machine = is_machine_text(reading)
    found += _monotony(reading, limits, machine)
    found += _repetition(reading, machine, ease)
    found += _noise(reading, letters, machine, ease)
    found += _disguise(reading)
    return found


def is_machine_text(reading: Reading) -> bool:
    """Does it look written by a program: a log, a stack trace, a table, a dump?"""
    counts = reading.counts
    marks = counts[POINT] + counts[SYMBOL] + counts[DIGIT]
    if reading.chars < 60 or marks < 0.12 * reading.chars or reading.letters < 0.05 * reading.chars:
        return False
    return len(set(reading.folded.text) & _PROGRAM_MARKS) >= 3


_PROGRAM_MARKS = frozenset("|-_:;/\\[](){}<>=\"'.,@#$%&*+")


def is_records(reading: Reading) -> bool:
    """Is it lines of one form: a log, a trace, a table? Its wording then says nothing of whoever sends it."""
    lines = [line for line in reading.masked.text.split("\n") if line]
    if len(lines) < _LEAST_RECORDS or not is_machine_text(reading):
        return False
    if np.count_nonzero(reading.masked_kinds >= LATIN) < _LEAST_LETTERS * len(lines):
        return False  # nothing but addresses, one a line
    starts = [_LETTER.sub("a", line[:8]) for line in lines[:_MOST_LINES]]
    return max(map(starts.count, set(starts))) >= 0.6 * len(starts)


_LEAST_RECORDS = 4
_LEAST_LETTERS = 6
_LETTER = re.compile(r"[^\W\d_]")


def is_code(reading: Reading) -> bool:
    """Is it program text: markup, a query, a snippet? Its wording says nothing of whoever sends it either."""
    found = [char for char in reading.folded.text if char in _CODE]
    return len(found) >= max(4, 0.05 * reading.chars) and len(set(found)) >= 2


_CODE = frozenset("<>{}[]=;\\`|")


def longer(limit: float, chars: int, full: float = 1.0) -> float:
    """A limit for a share, corrected for length: ``full`` at SHORTEST characters, near ``limit`` at a few hundred."""
    return limit + (full - limit) * min(1.0, SHORTEST / chars)


def least_entropy(bits: float, chars: int) -> float:
    """The entropy asked of a text: never over ``bits``, less for short ones, which cannot have it (log2 of length)."""
    return min(bits, 0.45 * math.log2(chars))


def _monotony(reading: Reading, limits: ShapeLimits, machine: bool) -> list[Fault]:
    if reading.words_chars == 0 and reading.chars > 40 and not reading.counts[EMOJI]:
        return [Fault("no_words", 1.0, reading.chars > 200, "there is not one letter or digit in it")]
    codes, kinds = unstretched(reading.codes, reading.kinds)
    solid = codes[(kinds > BREAK) & (kinds != DIGIT)] if machine else codes[kinds > BREAK]
    many = len(solid)
    if many < SHORTEST:
        return []
    solid.sort()
    shares = _tallies(solid) / many
    top = float(shares.max())
    entropy = -float(shares @ np.log2(shares))
    found: list[Fault] = []
    limit = longer(limits.max_repeat_char, many)
    if top > limit:
        certain = many >= 40 and top > max(0.75, limit) and not machine
        found.append(Fault("repeat_char", top, certain, f"one character makes up {top:.0%} of it (limit {limit:.0%})"))
    least = least_entropy(limits.min_entropy, many)
    if entropy < least and not machine:
        certain = many >= 60 and entropy < 0.6 * least
        found.append(
            Fault("entropy", entropy, certain, f"its characters hold {entropy:.1f} bits each (least {least:.1f})")
        )
    return found


def squeezed(codes: Codes, kinds: Kinds, which: Flags | None = None) -> tuple[Codes, Kinds]:
    """The text with runs of one punctuation mark, symbol or blank cut to three: anger and ruled lines repeat them.

    The arrays themselves where there is no such run.

    Args:
        which: kinds of character to cut instead, shape (16,).
    """
    if len(codes) < 4:
        return codes, kinds
    same = codes[1:] == codes[:-1]
    threefold = same[2:] & same[1:-1] & same[:-2]
    if not threefold.any():
        return codes, kinds
    run = threefold & (_SQUEEZED if which is None else which)[kinds[3:]]
    if not run.any():
        return codes, kinds
    kept = np.concatenate((_KEPT, ~run))
    return codes[kept], kinds[kept]


def unstretched(codes: Codes, kinds: Kinds) -> tuple[Codes, Kinds]:
    """The same with stretched letters too (sooooo, ❤❤❤❤❤), where the text says more than that."""
    short, short_kinds = squeezed(codes, kinds, _ANY)
    if len(short) >= _SAYS_MORE and (len(codes) <= _SHORT or len(short) > len(codes) / 4):
        return short, short_kinds
    return squeezed(codes, kinds)


_SAYS_MORE = 12
_SHORT = 120


def _tallies(ordered: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
    """How often each different value stands in an ordered array of at least one."""
    edges = (ordered[1:] != ordered[:-1]).nonzero()[0]
    bounds = np.empty(len(edges) + 2, np.intp)
    bounds[0], bounds[-1] = -1, len(ordered) - 1
    bounds[1:-1] = edges
    return bounds[1:] - bounds[:-1]


def _different(values: npt.NDArray[np.uint32]) -> int:
    """How many different values an array of at least one holds; sorts it."""
    values.sort()
    return 1 + int(np.count_nonzero(values[1:] != values[:-1]))


def _repetition(reading: Reading, machine: bool, ease: float) -> list[Fault]:
    if machine:
        return _same_lines(reading)
    codes, kinds = squeezed(reading.masked_codes, reading.masked_kinds)
    many = len(codes) - 2 * _HALF + 1
    if many < 16:
        return []
    halves = reading.grams[_HALF - 1][1:-1] if codes is reading.masked_codes else char_grams(codes, _HALF)[-1]
    new = _different(joined_grams(halves, _HALF)) / many
    found: list[Fault] = []
    limit = 0.36 / ease * many / (many + 24)
    if new < limit:
        certain = many >= 60 and new < 0.55 * limit
        found.append(Fault("repeat_phrase", 1 - new, certain, f"{1 - new:.0%} of it repeats what it has said before"))
    if len(reading.words) >= 10:
        return found + _few_words(np.sort(reading.words), ease)
    if reading.counts[HAN] + reading.counts[KANA] >= 40:
        han = codes[(kinds == HAN) | (kinds == KANA)]
        if len(han):
            found += _few_characters(_different(han) / len(han), len(han), ease)
    return found


def _same_lines(reading: Reading) -> list[Fault]:
    """A log or table repeats itself but for its numbers: only one that repeats those too, many times over, is odd."""
    lines = [line for line in reading.folded.text.split("\n") if line]
    most = max(map(lines.count, set(lines[:_MOST_LINES]))) if lines else 0
    if most < _MOST_SAME_LINES or most < 0.8 * len(lines):
        return []
    return [Fault("repeat_line", most, False, f"one line stands in it {most} times, numbers and all")]


_MOST_LINES = 200
_MOST_SAME_LINES = 40


def _few_words(ordered: npt.NDArray[np.uint32], ease: float) -> list[Fault]:
    words = len(ordered)
    counts = _tallies(ordered)
    found: list[Fault] = []
    top, limit = float(counts.max()) / words, longer(0.25, words, 0.8)
    if top > limit:
        certain = words >= 40 and top > 0.5
        found.append(Fault("repeat_word", top, certain, f"one word is {top:.0%} of its words (limit {limit:.0%})"))
    distinct, least = len(counts) / words, 0.22 / ease * words / (words + 10)
    if distinct < least:
        certain = words >= 60 and distinct < 0.5 * least
        found.append(Fault("few_words", distinct, certain, f"only {distinct:.0%} of its words are different ones"))
    return found


def _few_characters(distinct: float, many: int, ease: float) -> list[Fault]:
    least = 0.22 / ease * many / (many + 20) * min(1.0, 400 / many)
    if distinct >= least:
        return []
    certain = many >= 100 and distinct < 0.5 * least
    return [Fault("few_words", distinct, certain, f"only {distinct:.0%} of its characters are different ones")]


def _noise(reading: Reading, letters: Letters, machine: bool, ease: float) -> list[Fault]:
    counts, chars = reading.counts, reading.chars
    found = _strangeness(reading, letters, machine, ease)
    pictures = counts[EMOJI] / max(1, chars - counts[SPACE])
    if counts[EMOJI] >= 20 and pictures > 0.7:
        certain = counts[EMOJI] >= 40 and pictures > 0.9
        found.append(Fault("emoji", pictures, certain, f"{pictures:.0%} of it are emoji"))
    scripts = sum(counts[kind] > 0.06 * chars for kind in _SCRIPTS) - (counts[KANA] > 0 and counts[HAN] > 0)
    if scripts >= 4 and chars >= 20:
        found.append(Fault("scripts", scripts, False, f"it mixes {scripts} scripts"))
    symbols = (counts[OTHER] + counts[SYMBOL]) / chars
    if chars >= 40 and symbols > 0.5 and not machine:
        found.append(Fault("symbols", symbols, False, f"{symbols:.0%} of it are symbols"))
    links = reading.masked.text.count(LINK) if reading.masked.details else 0
    if links >= 3 and reading.letters < 12 * links:
        found.append(Fault("links", links, False, f"it is little but {links} links"))
    return found


def _strangeness(reading: Reading, letters: Letters, machine: bool, ease: float) -> list[Fault]:
    found: list[Fault] = []
    codes, kinds = unstretched(reading.masked_codes, reading.masked_kinds)
    strange = strangeness(codes, kinds, reading.counts, letters)
    if strange.letters >= 20:
        limit = 7.2 if machine else (5.9 + 12 / strange.letters) * (1.0 if ease == 1.0 else 0.97)
        if strange.rarity > limit:
            certain = strange.letters >= 60 and strange.rarity > 7.0 and not machine
            why = f"its letters follow one another as in no language ({strange.rarity:.1f} bits a letter)"
            found.append(Fault("random_letters", strange.rarity, certain, why))
    if strange.pairs >= 12 and strange.unknown > 0.52 + 1.25 / math.sqrt(strange.pairs):
        certain = strange.pairs >= 60 and strange.unknown > 0.7
        why = f"{strange.unknown:.0%} of its pairs of characters occur in no known word"
        found.append(Fault("random_pairs", strange.unknown, certain, why))
    han = reading.counts[HAN]
    if han >= SHORTEST and strange.rare > 0.3:
        certain = han >= 20 and strange.rare > 0.45
        why = f"{strange.rare:.0%} of its characters are in no everyday use"
        found.append(Fault("rare_letters", strange.rare, certain, why))
    return found


def _disguise(reading: Reading) -> list[Fault]:
    folded = reading.folded
    found: list[Fault] = []
    if folded.mixed >= 2:
        share = folded.mixed / max(1, len(folded.text.split()))
        if folded.mixed >= 4 or share > 0.25:
            why = f"{folded.mixed} words mix alphabets that look alike"
            found.append(Fault("mixed_words", folded.mixed, folded.mixed >= 6 and share > 0.3, why))
    for name, times, least, what in (
        ("hidden", folded.hidden, 3, "invisible characters stand inside words, {} times"),
        ("stacked", folded.stacked, 3, "marks are piled on its letters, {} times"),
        ("styled", folded.styled, 12, "{} letters are in ornamental forms"),
        ("spaced", folded.spaced, 3, "words are spaced out letter by letter, {} times"),
    ):
        if times >= least:
            found.append(Fault(name, times, False, what.format(times)))
    return found


_SCRIPTS = (LATIN, CYRILLIC, GREEK, HAN, KANA, HANGUL, LETTER)
_KEPT = np.ones(3, np.bool_)
_SQUEEZED: Flags = np.isin(np.arange(16), (POINT, SYMBOL, SPACE))
_ANY: Flags = np.ones(16, np.bool_)
