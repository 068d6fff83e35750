"""How facts reach a terminal or a pipe. Whatever a customer wrote is made harmless here, in one place."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

PIPE_COLUMNS = 160
"""Width of a table that no terminal limits."""

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_LINE_BREAKS = frozenset("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_JOINERS = frozenset("\u200c\u200d")
"""Format characters that real text needs (Persian, emoji made of several): they only join what stands beside them."""


def safe_text(text: str) -> str:
    """Text of unknown origin, fit for a terminal: no escape sequence, no control, no character that reorders others.

    Line breaks and tabs stay; what is taken out is shown as U+FFFD, so that nobody reads two words as one.
    """
    return "".join(map(_safe, text.replace("\r\n", "\n")))


def safe_line(text: str, longest: int = 0) -> str:
    """The same on one line, cut to ``longest`` characters if that is not 0."""
    line = " ".join(safe_text("".join(" " if one in _LINE_BREAKS else one for one in text)).split())
    return line if not longest or len(line) <= longest else line[: longest - 1] + "…"


def _safe(one: str) -> str:
    if one in "\n\t" or one in _JOINERS:
        return one
    if one in _BIDI or unicodedata.category(one) in _UNSAFE_CATEGORIES:
        return "\ufffd"
    return "\n" if one in _LINE_BREAKS else one


def print_json(facts: Any) -> None:
    """One JSON document on stdout. Characters that would steer a terminal are escaped."""
    text = msgspec.json.format(msgspec.json.encode(facts, enc_hook=_number), indent=2).decode()
    print("".join(f"\\u{ord(one):04x}" if _steers(one) else one for one in text))


def json_line(facts: Any) -> str:
    """The same on one line, for JSON Lines."""
    return "".join(
        f"\\u{ord(one):04x}" if _steers(one) else one for one in msgspec.json.encode(facts, enc_hook=_number).decode()
    )


def _number(quantity: object) -> float | int:
    """What a quantity with a unit is to others."""
    if isinstance(quantity, float):
        return float(quantity)
    if isinstance(quantity, int):
        return int(quantity)
    raise TypeError(f"cannot print {type(quantity).__name__}")


def _steers(one: str) -> bool:
    return one in _BIDI or "\x7f" <= one <= "\x9f"


def print_text(text: str, end: str = "\n", stderr: bool = False) -> None:
    """Lines of our own or made safe; colours and markup have no meaning in it."""
    print(text, end=end, flush=True, file=sys.stderr if stderr else sys.stdout)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on stdout; every cell is made safe and printed as it is, its square brackets included."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    numeric = [True] * len(columns)
    for row in rows:
        numeric = [so_far and isinstance(cell, int | float) for so_far, cell in zip(numeric, row, strict=True)]
        table.add_row(*(Text(safe_text(_shown(cell))) for cell in row))
    for column, right in zip(table.columns, numeric, strict=True):
        column.justify = "right" if right and table.row_count else "left"
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    console.print(Text(title, style="bold"))
    console.print(table)


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:,.2f}" if abs(cell) < 10 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
