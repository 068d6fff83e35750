"""CSV cells that hold what strangers wrote."""

from __future__ import annotations


def inert_cell(cell: str) -> str:
    """A CSV cell that no spreadsheet takes for a formula: one that would be, gets an apostrophe in front."""
    return "'" + cell if cell.lstrip(" \u00a0\u3000\ufeff")[:1] in _FORMULA_STARTS and cell else cell


_FORMULA_STARTS = frozenset("=+-@\t\r\n|%＝＋－＠")
