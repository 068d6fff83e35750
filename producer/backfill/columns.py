"""Which column of a file is which field of a ticket."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from schemas.errors import Refused
from schemas.ticket import NewTicket

METADATA = "metadata."
"""``metadata.order`` is one entry of the metadata."""

_FIELDS = frozenset(NewTicket.__struct_fields__) - {"metadata"}
# A column called "source" is rarely a name of ours: it is taken only when it is asked for.
_TAKEN_BY_NAME = _FIELDS - {"source"}


def pairs(option: str, given: Collection[str]) -> dict[str, str]:
    """``field=value`` arguments of an option, by field.

    Raises:
        Refused: one is not written so, or names what is no field of a ticket.
    """
    found: dict[str, str] = {}
    for each in given:
        field, mark, value = each.partition("=")
        if not mark:
            raise Refused(option, f"{each!r} is not written as field=value, for instance body=Message")
        if field not in _FIELDS and not (field.startswith(METADATA) and field != METADATA):
            raise Refused(
                option, f"{field!r} is no field of a ticket; use {', '.join(sorted(_FIELDS))} or metadata.NAME"
            )
        found[field] = value
    return found


class Columns:
    """How the values of a row become the fields of a ticket.

    Args:
        mapped: column by field; an empty column takes the field from nowhere. A column that bears a field's name is
            taken for it unless told otherwise.
        constants: fields that are the same in every row, whatever the file says.
    """

    def __init__(self, mapped: Mapping[str, str], constants: Mapping[str, str]) -> None:
        self._mapped = {field: column for field, column in mapped.items() if field not in constants}
        self._constants = dict(constants)
        self._by_name = _TAKEN_BY_NAME - set(self._mapped) - set(constants)

    def check(self, columns: Collection[str]) -> None:
        """Raises Refused where a column is missing, or named twice, or none is the body."""
        twice = next((name for name in columns if list(columns).count(name) > 1), None)
        if twice is not None:
            raise Refused("columns", f"two are called {twice!r}")
        for field, column in self._mapped.items():
            if column and column not in columns:
                raise Refused("map", f"{field}={column}: there is no such column; there are {', '.join(columns)}")
        if "body" not in self._constants and not self._mapped.get("body") and "body" not in map(_plain, columns):
            raise Refused("map", f"no column is the body; say which with body=COLUMN, of {', '.join(columns)}")

    def fields(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a ticket in a row. What is empty is left out."""
        given: dict[str, Any] = {}
        metadata: dict[str, Any] = {}
        for column, value in row.items():
            name = _plain(column)
            if name in self._by_name:
                given[name] = value
            elif name == "metadata" and isinstance(value, dict):
                metadata |= value
        for field, column in self._mapped.items():
            if column in row:
                given[field] = row[column]
        given |= self._constants
        fields: dict[str, Any] = {}
        for field, value in given.items():
            if value in ("", None):
                continue
            if field.startswith(METADATA):
                metadata[field.removeprefix(METADATA)] = value
            else:
                # Other programs' ids are often numbers.
                fields[field] = str(value) if field in _IDS and isinstance(value, int) else value
        return fields | {"metadata": metadata} if metadata else fields


_IDS = frozenset({"external_id", "revision", "conversation", "customer"})


def _plain(column: str) -> str:
    return column.strip().lower().replace(" ", "_").replace("-", "_")
