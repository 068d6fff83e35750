"""Memory of what was said lately, by whoever said it: the same text, or nearly the same, from many senders.

A text's signature (MinHash over character 4-grams) is nearly equal for near-copies. The memory holds a fixed number
of them in arrays of fixed size: a million senders and a million texts take no byte more than the first.
"""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
import numpy.typing as npt

from producer.policy.text.folding import HAN, KANA
from producer.policy.text.reading import Reading

Signature = npt.NDArray[np.uint16]

ROWS = 24
BANDS = 8
SHORTEST = 4
MOST_GRAMS = 256
"""Grams looked at: those of a longer text are thinned out by their hash, the same ones in every copy."""

LEAST_SAID = 30
"""Letters below which equal texts mean nothing: many people ask the same short question. A Han letter counts thrice."""

_BITS = 256
_ALIKE = 0.55
_ALIKE_SHORT = 0.7
_SHORT = 60


class CopyLimits(msgspec.Struct, frozen=True):
    """When copies become suspicious.

    Attributes:
        window_s: a text not heard of for so long is forgotten.
        senders: so many different senders of one text are one too many.
        alone: so often may one sender say the same.
        entries: texts remembered.
    """

    window_s: float = 86_400.0
    senders: int = 4
    alone: int = 20
    entries: int = 65_536


class Copies(msgspec.Struct, frozen=True):
    """How often a text was met within the window, this time included, and from how many senders (estimated)."""

    times: int = 1
    senders: int = 1


class CopyMemory:
    """Remembers texts by their signatures; the oldest that nobody repeats gives way first."""

    def __init__(self, limits: CopyLimits) -> None:
        self._limits = limits
        entries = limits.entries
        self._signatures = np.zeros((entries, ROWS), np.uint16)
        self._seen_at = np.full(entries, -np.inf)
        self._times = np.zeros(entries, np.uint32)
        self._senders = np.zeros((entries, _BITS // 64), np.uint64)
        self._places = np.full((BANDS, 2 * entries), -1, np.int32)
        self._next = 0

    @property
    def size_bytes(self) -> int:
        """What the memory takes, now and for ever."""
        arrays = (self._signatures, self._seen_at, self._times, self._senders, self._places)
        return sum(array.nbytes for array in arrays)

    def meet(self, reading: Reading, tenant: str, customer: str, now_s: float) -> Copies:
        """Counts one more sighting of a text among those of its tenant. Texts that say too little are never copies."""
        if _said(reading) < LEAST_SAID or len(reading.masked_codes) < SHORTEST:
            return Copies()
        mine = signature(reading)
        whose = np.uint64(zlib.crc32(tenant.encode()))
        slots = ((bands(mine) ^ whose) % np.uint64(self._places.shape[1])).astype(np.intp)
        entry = self._found(mine, slots, reading.chars, now_s)
        if entry < 0:
            entry = self._forget_one(now_s)
            self._signatures[entry] = mine
            self._times[entry] = 0
            self._senders[entry] = 0
        self._places[_BAND, slots] = entry
        self._seen_at[entry] = now_s
        self._times[entry] += 1
        bit = zlib.crc32(customer.encode(errors="replace")) % _BITS
        self._senders[entry, bit // 64] |= np.uint64(1 << (bit % 64))
        return Copies(int(self._times[entry]), self._many(entry))

    def _found(self, mine: Signature, slots: npt.NDArray[np.intp], chars: int, now_s: float) -> int:
        candidates = self._places[_BAND, slots]
        candidates = candidates[candidates >= 0]
        if not len(candidates):
            return -1
        alike = (self._signatures[candidates] == mine).sum(axis=1) / ROWS
        alike[self._seen_at[candidates] < now_s - self._limits.window_s] = 0.0
        best = int(alike.argmax())
        return int(candidates[best]) if alike[best] >= (_ALIKE if chars >= _SHORT else _ALIKE_SHORT) else -1

    def _forget_one(self, now_s: float) -> int:
        """The next entry round the ring; one that is being repeated has a second chance, at most eight do in a row."""
        entry = self._next
        for _ in range(8):
            entry = self._next
            self._next = (entry + 1) % len(self._times)
            if self._times[entry] < 3 or self._seen_at[entry] < now_s - self._limits.window_s:
                break
            self._times[entry] //= 2
        return entry

    def _many(self, entry: int) -> int:
        ones = sum(word.bit_count() for word in self._senders[entry].tolist())
        free = max(1, _BITS - ones) / _BITS
        return max(1, round(-_BITS * float(np.log(free))))


def signature(reading: Reading) -> Signature:
    """The signature, shape (ROWS,), of a text of at least SHORTEST characters."""
    grams = reading.grams[3]
    mixed = (grams ^ (grams >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
    if len(mixed) > MOST_GRAMS:
        mixed = np.partition(mixed, MOST_GRAMS)[:MOST_GRAMS] * np.uint32(0x85EBCA6B)
    return ((mixed * _FACTORS).min(axis=1) >> np.uint32(16)).astype(np.uint16)


def bands(rows: Signature) -> npt.NDArray[np.uint64]:
    """The keys, shape (BANDS,), under which near-copies are likely to meet."""
    mixed = (rows.reshape(ROWS // BANDS, BANDS).astype(np.uint64) * _BAND_FACTORS).sum(axis=0, dtype=np.uint64)
    return mixed ^ (mixed >> np.uint64(31))


def _said(reading: Reading) -> int:
    counts = reading.counts
    return reading.letters + 2 * (counts[HAN] + counts[KANA])


_BAND = np.arange(BANDS)
_FACTORS = np.random.default_rng(7).integers(1, 2**32, (ROWS, 1), np.uint32) | np.uint32(1)
_BAND_FACTORS = np.random.default_rng(8).integers(1, 2**63, (ROWS // BANDS, 1), np.uint64) | np.uint64(1)
