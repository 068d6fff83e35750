"""Files of rows, opened: which kind they are, and how their text is written."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from enum import StrEnum
from typing import BinaryIO

from schemas.errors import Refused

LONGEST_LINE_BYTES = 2_000_000
"""A line that is longer holds no ticket: the longest body, all of it escaped, is shorter."""


class Format(StrEnum):
    """What a file of tickets can be."""

    CSV = "csv"
    JSONL = "jsonl"


_BY_SUFFIX = {".csv": Format.CSV, ".tsv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL}


def format_of(name: str, file: io.BufferedReader) -> Format:
    """By the file's name, or else by its first character."""
    known = _BY_SUFFIX.get("." + name.lower().rpartition(".")[2])
    start = file.peek(64).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    return known or (Format.JSONL if start == b"{" else Format.CSV)


def text_of(file: BinaryIO, encoding: str) -> io.TextIOWrapper:
    """The file as text. Bytes that are none become lone surrogates, to be found where they are.

    Raises:
        Refused: there is no such encoding.
    """
    try:
        found = codecs.lookup(encoding)
        "".encode(found.name)
    except LookupError:
        raise Refused("encoding", f"{encoding!r} is none that is known; try utf-8, gb18030, utf-16 or cp1252") from None
    name = "utf-8-sig" if found.name == "utf-8" else found.name
    return io.TextIOWrapper(file, encoding=name, errors="surrogateescape", newline="")


def undecoded(text: str) -> bool:
    """Holds bytes that were no text in the file's encoding."""
    return any("\udc80" <= character <= "\udcff" for character in text)


def bounded_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Each line with its number; None for one that is too long to be read."""
    number = 0
    while line := file.readline(LONGEST_LINE_BYTES):
        number += 1
        if len(line) < LONGEST_LINE_BYTES or line.endswith(b"\n"):
            yield number, line
            continue
        while (rest := file.readline(LONGEST_LINE_BYTES)) and not rest.endswith(b"\n"):
            pass
        yield number, None
