"""The four files that the gate is trained and judged on, and their split by groups of near-copies."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from producer.policy.copies import SHORTEST, Signature, bands, signature
from producer.policy.text.reading import read
from schemas.errors import Refused

Kind = Literal["honest_en", "honest_zh", "ham", "spam", "creative"]

FILES = ("tickets_en.jsonl", "tickets_zh.jsonl", "spam.jsonl", "creative.jsonl")
_ALIKE = 0.6
KINDS: tuple[Kind, ...] = ("honest_en", "honest_zh", "ham", "spam", "creative")


class Sample(msgspec.Struct, frozen=True):
    """One labelled text.

    Attributes:
        channel: where it was seen (sms, comment, ticket ...): whole channels can be left out of a training.
        group: near-copies and parts of one dialogue share a group; a split never cuts through one.
    """

    text: str
    kind: Kind
    channel: str
    group: str

    @property
    def part(self) -> float:
        """The group's place in 0 to 1, the same in every run."""
        return int(self.group, 16) / 2**64


class _Labels(msgspec.Struct):
    label: str = ""
    channel: str = ""


class _Row(msgspec.Struct):
    id: str
    text: str
    labels: _Labels = msgspec.field(default_factory=_Labels)


def read_corpus(folder: Path, some: bool = False) -> list[Sample]:
    """Every sample of a folder.

    Args:
        some: one of the files is enough.

    Raises:
        Refused: a file is missing, or a row is none; names the file and line.
    """
    there = [name for name in FILES if (folder / name).is_file()]
    if some and not there:
        raise Refused(str(folder), f"holds none of {', '.join(FILES)}")
    rows: list[tuple[_Row, Kind, str]] = []
    decoder = msgspec.json.Decoder(_Row)
    for name in there if some else FILES:
        path = folder / name
        if not path.is_file():
            raise Refused(str(path), f"is missing; a folder to train or judge on holds {', '.join(FILES)}")
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeError) as error:
                raise Refused(f"{path}:{number}", str(error)) from None
            rows.append((row, _kind(name, row, f"{path}:{number}"), row.labels.channel or name.removesuffix(".jsonl")))
    groups = _groups([row.text for row, _, _ in rows], [row.id.partition("#")[0] for row, _, _ in rows])
    return [Sample(row.text, kind, channel, group) for (row, kind, channel), group in zip(rows, groups, strict=True)]


def digest(samples: list[Sample]) -> str:
    """What tells one corpus from another, whatever the order of its rows."""
    lines = sorted(f"{sample.kind}\x00{sample.text}" for sample in samples)
    return hashlib.sha256("\x01".join(lines).encode(errors="replace")).hexdigest()[:16]


def _kind(name: str, row: _Row, where: str) -> Kind:
    if name == "spam.jsonl":
        if row.labels.label not in ("spam", "ham"):
            raise Refused(where, "needs labels.label, either spam or ham")
        return "spam" if row.labels.label == "spam" else "ham"
    if name == "creative.jsonl":
        return "creative"
    return "honest_zh" if name == "tickets_zh.jsonl" else "honest_en"


def _groups(texts: list[str], dialogues: list[str]) -> list[str]:
    """Groups by union of equal dialogue and of near-copies; named by the hash of their first text."""
    parent = list(range(len(texts)))

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    def join(one: int, other: int) -> None:
        first, second = sorted((root(one), root(other)))
        parent[second] = first

    said: dict[str, int] = {}
    met: dict[tuple[int, int], int] = {}
    signatures: list[Signature | None] = []
    for index, (text, dialogue) in enumerate(zip(texts, dialogues, strict=True)):
        join(index, said.setdefault(dialogue, index))
        join(index, said.setdefault(text, index))
        reading = read(text)
        mine = signature(reading) if len(reading.masked_codes) >= SHORTEST else None
        signatures.append(mine)
        if mine is None:
            continue
        for key in enumerate(bands(mine).tolist()):
            other = met.setdefault(key, index)
            theirs = signatures[other]
            if theirs is not None and float(np.mean(mine == theirs)) >= _ALIKE:
                join(index, other)
    return [
        hashlib.blake2b(texts[root(i)].encode(errors="replace"), digest_size=8).hexdigest() for i in range(len(texts))
    ]
