"""What the content model is taught: the corpus, altered copies of it, and texts written for the project."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

import msgspec

from ops.gate.contacts import with_contacts
from ops.gate.corpus import Kind, Sample
from ops.gate.seeds import patterns, written
from producer.policy.text.folding import fold
from producer.policy.text.masking import mask

_MARKS = re.compile("[\ue000-\ue00f]")
_SEEDS: tuple[tuple[str, Kind, float], ...] = (
    ("spam_en", "spam", 0.2),
    ("spam_zh", "spam", 0.2),
    ("honest_en", "honest_en", 0.5),
    ("tickets_en", "honest_en", 0.5),
    ("tickets_zh", "honest_zh", 0.5),
    ("honest_zh", "honest_zh", 0.5),
    ("creative", "creative", 0.3),
)
"""Files in seeds/, their kind, and what one text of theirs counts."""


class Lesson(msgspec.Struct, frozen=True):
    """One text to learn from.

    Attributes:
        weight: what it counts, a text of the corpus being 1.
        altered: what was done to it, "" for a text as it stood; thresholds are set on honest ones with contacts too.
    """

    text: str
    kind: Kind
    weight: float
    group: str
    channel: str
    altered: str = ""


def lessons(samples: Sequence[Sample], chance: random.Random, copies: int = 10) -> list[Lesson]:
    """Everything to learn from; ``copies`` texts are written of each pattern."""
    taught: list[Lesson] = []
    for sample in samples:
        taught.append(
            Lesson(sample.text, sample.kind, 1.5 if sample.kind == "ham" else 1.0, sample.group, sample.channel)
        )
        taught.extend(
            Lesson(text, sample.kind, weight, sample.group, sample.channel, altered)
            for text, weight, altered in _altered(sample, chance)
        )
    taught.extend(_reports([sample for sample in samples if sample.kind == "spam"], chance))
    for name, kind, weight in _SEEDS:
        for pattern in patterns(name):
            group = f"{chance.getrandbits(64):016x}"
            taught.extend(
                Lesson(written(pattern, chance), kind, weight, group, "written", "written") for _ in range(copies)
            )
    return taught


def _reports(spam: Sequence[Sample], chance: random.Random) -> Iterator[Lesson]:
    """Honest tickets that quote spam, to ask or complain about it."""
    frames = patterns("frames_en")
    for sample in spam:
        if chance.random() < _QUOTED:
            frame = chance.choice(frames).replace("{spam}", _OPENING)
            text = written(frame, chance).replace(_OPENING, sample.text[: chance.randint(30, 200)])
            yield Lesson(text, "honest_en", 0.3, sample.group, "written", "report")
    for pattern in patterns("spam_zh"):
        frame = chance.choice(patterns("frames_zh")).replace("{spam}", _OPENING)
        text = written(frame, chance).replace(_OPENING, written(pattern, chance))
        yield Lesson(text, "honest_zh", 0.4, f"{chance.getrandbits(64):016x}", "written", "report")


_QUOTED = 0.12
"""Share of the spam that is also quoted in a report."""

_OPENING = "\x03"
"""Holds the place of the quotation while the frame is written."""


def _altered(sample: Sample, chance: random.Random) -> Iterator[tuple[str, float, str]]:
    text, kind = sample.text, sample.kind
    if kind in ("honest_en", "honest_zh"):
        for _ in range(2):
            yield with_contacts(text, chance, "train", kind == "honest_zh"), 0.3, "contacts"
        if chance.random() < 0.2:
            yield text.upper(), 0.4, "shouted"
        if chance.random() < 0.2:
            yield text.rstrip("?.!。？！") + chance.choice("!?.！？") * chance.randint(1, 12), 0.4, "marks"
    elif kind == "ham":
        if chance.random() < 0.3:
            yield with_contacts(text, chance, "train", False), 0.4, "contacts"
    elif kind == "spam":
        bare = _MARKS.sub("", mask(fold(text).text).text)
        if len(bare) > 20:
            yield bare, 0.4, "bare"
        if len(text) > 60:
            start = chance.randrange(len(text) // 2)
            yield text[start : start + chance.randint(40, 160)], 0.4, "part"
    else:
        lines = text.split("\n")
        if len(lines) > 4:
            start = chance.randrange(len(lines) - 3)
            yield "\n".join(lines[start : start + chance.randint(3, 10)]), 0.7, "part"
        yield " ".join(lines)[: chance.randint(80, 800)], 0.5, "one line"
