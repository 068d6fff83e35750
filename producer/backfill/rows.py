"""The rows of a file, one at a time, each with the number of its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, Self, TextIO

import msgspec

from producer.backfill.columns import Columns
from producer.backfill.files import LONGEST_LINE_BYTES, Format, bounded_lines, format_of, text_of, undecoded
from schemas.errors import Refused
from schemas.ticket import decode_new_ticket

Row = tuple[int, dict[str, Any] | Refused]
"""A line's number, and the fields of a ticket in it or why there are none."""


def rows_of(
    name: str, file: io.BufferedReader, columns: Columns, *, encoding: str = "utf-8", delimiter: str = ""
) -> Iterator[Row]:
    """The rows of a CSV or JSON-lines file. A broken row is said so, and the next one follows.

    Args:
        delimiter: of a CSV file; found in its first line if left empty.

    Raises:
        Refused: the file as a whole cannot be understood.
    """
    start = file.peek(4)[:4]
    if encoding == "utf-8" and (start[:2] in (b"\xff\xfe", b"\xfe\xff")):
        raise Refused("encoding", "the file is UTF-16, not UTF-8; say so with the encoding utf-16")
    if format_of(name, file) is Format.JSONL:
        return _json_rows(file, columns, encoding)
    return _csv_rows(file, columns, encoding, delimiter)


def _json_rows(file: BinaryIO, columns: Columns, encoding: str) -> Iterator[Row]:
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")
    lines = bounded_lines(file) if plain else _recoded_lines(file, encoding)
    for number, line in lines:
        if line is None:
            yield number, Refused("line", f"is over {LONGEST_LINE_BYTES} bytes")
        elif line.strip():
            yield number, _json_fields(line, columns)


def _recoded_lines(file: BinaryIO, encoding: str) -> Iterator[tuple[int, bytes | None]]:
    text = text_of(file, encoding)
    try:
        for number, line in enumerate(text, start=1):
            yield number, line.encode("utf-8", "surrogateescape")
    finally:
        text.detach()  # or the file is closed with it, under the eyes of whoever opened it


def _json_fields(line: bytes, columns: Columns) -> dict[str, Any] | Refused:
    try:
        row: Any = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
        if isinstance(row, dict):
            return columns.fields(row)
        decode_new_ticket(line)
    except Refused as error:
        return error
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            decode_new_ticket(line)
        except Refused as error:
            return error
    return Refused("line", "is no JSON object")


def _csv_rows(file: BinaryIO, columns: Columns, encoding: str, delimiter: str) -> Iterator[Row]:
    text = text_of(file, encoding)
    try:
        yield from _csv_body(text, *_csv_head(text, columns, encoding, delimiter), columns, encoding)
    finally:
        text.detach()  # or the file is closed with it, under the eyes of whoever opened it


def _csv_head(text: TextIO, columns: Columns, encoding: str, delimiter: str) -> tuple[list[str], str]:
    first = text.readline(LONGEST_LINE_BYTES)
    if undecoded(first):
        raise Refused("encoding", f"line 1 is not {encoding}; say how the file is written, for instance gb18030")
    chosen = delimiter or _delimiter(first)
    if len(chosen) != 1:
        raise Refused("delimiter", f"must be one character, not {chosen!r}")
    try:
        names = [name.strip() for name in next(csv.reader([first], delimiter=chosen, strict=True), [])]
    except csv.Error as error:
        raise Refused("file", f"has a first line that is no CSV: {error}") from None
    if not any(names):
        raise Refused("file", "has no first line with the names of its columns")
    columns.check([name for name in names if name])
    return names, chosen


def _csv_body(text: TextIO, names: list[str], delimiter: str, columns: Columns, encoding: str) -> Iterator[Row]:
    lines = _Lines(text)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        number = lines.number + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, Refused("line", f"is broken: {error}")
            continue
        if not any(cells):
            continue
        if len(cells) != len(names):
            yield number, Refused("line", f"has {len(cells)} cells, and the first line names {len(names)}")
        elif any(map(undecoded, cells)):
            yield number, Refused("encoding", f"holds bytes that are not {encoding}; say how the file is written")
        else:
            yield number, columns.fields({name: cell for name, cell in zip(names, cells, strict=True) if name})


class _Lines:
    """The lines after the first; ``number`` is that of the last one given."""

    def __init__(self, text: TextIO) -> None:
        self.number = 1
        self._text = text

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self._text.readline(LONGEST_LINE_BYTES)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) < LONGEST_LINE_BYTES or line.endswith(("\n", "\r")):
            return line
        while (rest := self._text.readline(LONGEST_LINE_BYTES)) and not rest.endswith(("\n", "\r")):
            pass
        raise csv.Error(f"over {LONGEST_LINE_BYTES} characters in one line")


def _delimiter(first_line: str) -> str:
    # Names of columns seldom hold one: whichever there are most of parts them.
    return max(",;\t|", key=first_line.count)
