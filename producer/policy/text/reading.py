"""One reading of a ticket's text, shared by every signal so that nothing is computed twice."""

from __future__ import annotations

import msgspec
import numpy as np

from producer.policy.text.folding import DIGIT, LATIN, MARK, Codes, Folded, Kinds, codes_of, fold, kinds_of
from producer.policy.text.grams import Hashes, char_grams, word_hashes, word_spans
from producer.policy.text.masking import Masked, mask


class Reading(msgspec.Struct, frozen=True):
    """A text folded and masked.

    Attributes:
        folded: the plain form, contact details in place: shape is judged on it.
        masked: the same without them: content and copies are judged on it.
        codes, kinds: of the folded text, one entry a character.
        masked_codes, masked_kinds: of the masked one; the same arrays where nothing was masked.
        grams: hashes of the masked text's character 1-5-grams, edges counted as blanks; see grams.
        words: hashes of its words, in order.
        counts: how many characters of each kind the folded text has, shape (16,).
        raw_chars: length of the text as it came.
    """

    folded: Folded
    masked: Masked
    codes: Codes
    kinds: Kinds
    masked_codes: Codes
    masked_kinds: Kinds
    grams: list[Hashes]
    words: Hashes
    counts: tuple[int, ...]
    raw_chars: int

    @property
    def chars(self) -> int:
        """Characters of the folded text."""
        return len(self.codes)

    @property
    def letters(self) -> int:
        """Letters of any script."""
        return sum(self.counts[LATIN:])

    @property
    def words_chars(self) -> int:
        """Letters, digits and marks."""
        return self.letters + self.counts[DIGIT] + self.counts[MARK]


def read(raw: str) -> Reading:
    """Reads any text. Never raises."""
    folded = fold(raw)
    masked = mask(folded.text)
    codes = codes_of(folded.text)
    kinds = kinds_of(codes)
    if masked.text is folded.text:
        masked_codes, masked_kinds = codes, kinds
    else:
        masked_codes = codes_of(masked.text)
        masked_kinds = kinds_of(masked_codes)
    counts = tuple(np.bincount(kinds, minlength=16).tolist())
    grams = char_grams(np.concatenate((_EDGE, masked_codes, _EDGE)))
    words = word_hashes(masked_codes, *word_spans(masked_kinds))
    return Reading(folded, masked, codes, kinds, masked_codes, masked_kinds, grams, words, counts, len(raw))


_EDGE = np.array([32], np.uint32)
