"""What is written in a reputation list: the formats that lists are published in, read as networks.

``lines``: an address, network or range first on each line, ``#`` and ``;`` begin a comment (plain lists, Spamhaus DROP,
FireHOL netsets). ``jsonl``: an object a line (Spamhaus DROP as JSON). ``csv``: a column of addresses.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from ops.edge.networks import Network, networks

Format = Literal["auto", "lines", "jsonl", "csv"]

JSON_FIELDS = ("cidr", "network", "prefix", "ip", "ip_address", "address")
"""Fields that may hold the network of a JSON line, where the settings name none."""

_COMMENT = re.compile(r"[#;]")
_RANGE = re.compile(r"\s+-\s+")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        networks: as they stand in the list, in its order.
        entries: lines that should hold a network.
        unreadable: how many of them hold none.
        first_unreadable: number of the first of those, counted from 1; 0 if there is none.
    """

    networks: list[Network]
    entries: int
    unreadable: int
    first_unreadable: int


def read(content: bytes, kind: Format = "auto", column: str = "", most: int = 1_000_000) -> Reading:
    """The networks of a list. Never fails: what is no list has nothing but unreadable lines.

    Args:
        column: of CSV its name or number from 1, of JSON the field's name; empty: the one that holds addresses.
        most: reading ends once more networks than that were found: a range of one line may stand for hundreds.
    """
    lines = content.decode("utf-8-sig", errors="replace").splitlines()
    found: list[Network] = []
    entries = unreadable = first_unreadable = 0
    for number, text in _READERS[_kind(lines, column) if kind == "auto" else kind](lines, column):
        entries += 1
        try:
            found += networks(text)
        except ValueError:
            unreadable += 1
            first_unreadable = first_unreadable or number
        if len(found) > most:
            break
    return Reading(networks=found, entries=entries, unreadable=unreadable, first_unreadable=first_unreadable)


def _kind(lines: list[str], column: str) -> Literal["lines", "jsonl", "csv"]:
    first = next((line.strip() for line in lines if line.strip() and not _COMMENT.match(line.strip())), "")
    if first.startswith("{"):
        return "jsonl"
    return "csv" if column or "," in first else "lines"


def _lines(lines: Iterable[str], _column: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        entry = _RANGE.sub("-", _COMMENT.split(line, maxsplit=1)[0]).split()
        if entry:
            yield number, entry[0]


def _json_lines(lines: Iterable[str], column: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or _COMMENT.match(line.strip()):
            continue
        try:
            entry = msgspec.json.decode(line)
        except msgspec.DecodeError:
            yield number, ""
            continue
        fields: dict[str, object] = entry if isinstance(entry, dict) else {}
        if fields.get("type") == "metadata":
            continue
        yield number, next((str(fields[name]) for name in ((column,) if column else JSON_FIELDS) if name in fields), "")


def _csv(lines: Iterable[str], column: str) -> Iterator[tuple[int, str]]:
    place: int | None = int(column) - 1 if column.isascii() and column.isdigit() else None
    headed = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        comment = _COMMENT.match(line.strip()) is not None
        row = _cells(line.strip().lstrip("#; ") if comment else line)
        if place is None and column and not headed:
            # Some publish the names of the columns in a comment.
            place = next((at for at, cell in enumerate(row) if cell.lower() == column.lower()), None)
        if comment:
            continue
        if not headed:
            headed = True
            if not any(map(_is_network, row)):
                continue
        if place is None and not column:
            place = next((at for at, cell in enumerate(row) if _is_network(cell)), None)
        yield number, row[place] if place is not None and 0 <= place < len(row) else ""


def _cells(line: str) -> list[str]:
    delimiter = next((mark for mark in ",;\t" if mark in line), ",")
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]
    except csv.Error:
        return []


def _is_network(cell: str) -> bool:
    try:
        networks(cell)
    except ValueError:
        return False
    return True


_READERS = {"lines": _lines, "jsonl": _json_lines, "csv": _csv}
