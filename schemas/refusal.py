"""What a decoder says of bad input, in the words of the person who wrote it: which field, and what would be right.

Nothing of the input is repeated but the names of fields, and those only where they are fit to be printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

_WHERE = re.compile(r"\A(?P<why>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?\Z", re.DOTALL)

_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "object": "an object of names and values",
    "array": "a list",
    "datetime": "a time with its zone, like 2026-01-31T09:00:00Z",
}


def explained(error: Exception, kind: type[msgspec.Struct], what: str) -> tuple[str, str]:
    """The dotted path of the field at fault (empty: the whole input), and what is wrong with it.

    Args:
        error: what ``msgspec`` raised while it decoded a ``kind``.
        what: what a field of it is called, as in ``"a field of a ticket"``.
    """
    match = _WHERE.match(str(error))
    assert match is not None
    path = (match["path"] or "").lstrip(".")
    if match["key"]:
        return path, f"has a name that {_said(match['why'], kind, path)}"
    of_a_name = {"Object contains unknown field `": f"is not {what}", "Object missing required field `": "is missing"}
    for start, why in of_a_name.items():
        if match["why"].startswith(start):
            name = printable(match["why"].removeprefix(start).removesuffix("`"))
            return (f"{path}.{name}" if path else name), why
    return path, _said(match["why"], kind, path)


def printable(name: str) -> str:
    """A name that came from outside, short and free of anything that a terminal or a log would act on."""
    short = name if len(name) <= 64 else f"{name[:60]}..."
    return short if short.isprintable() else ascii(short)[1:-1]


def _said(why: str, kind: type[msgspec.Struct], path: str) -> str:
    if why.startswith("Invalid enum value"):
        return f"must be one of {', '.join(_choices(kind, path))}"
    for pattern, say in _SAYINGS:
        if match := pattern.fullmatch(why):
            return say(match)
    return why


def _kinds(names: str) -> str:
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


def _length(match: re.Match[str]) -> str:
    if match[1] == "<=":
        return f"is longer than {match[2]} characters"
    return "is empty" if match[2] == "1" else f"is shorter than {match[2]} characters"


_SAYINGS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"Expected `([^`]*)`, got `([^`]*)`"), lambda m: f"must be {_kinds(m[1])}, not {_kinds(m[2])}"),
    (re.compile(r"Expected `([^`]*)`"), lambda m: f"must be {_kinds(m[1])}"),
    (re.compile(r"Expected `str` of length (<=|>=) (\d+)"), _length),
    (re.compile(r"Expected `(?:int|float)` >= (\S+)"), lambda m: f"must be {m[1]} or more"),
    (re.compile(r"Expected `(?:int|float)` > (\S+)"), lambda m: f"must be more than {m[1]}"),
    (re.compile(r"Expected `(?:int|float)` <= (\S+)"), lambda m: f"must be {m[1]} or less"),
    (
        # The only pattern there is: that of a name.
        re.compile(r"Expected `str` matching regex .*", re.DOTALL),
        lambda _: "must begin with a letter or digit and hold nothing but letters, digits and . _ : -",
    ),
    (re.compile(r"Invalid RFC3339 encoded datetime"), lambda _: f"must be {_KINDS['datetime']}"),
    (re.compile(r"Expected `datetime` with a timezone component"), lambda _: f"must be {_KINDS['datetime']}"),
    (re.compile(r"Input data was truncated"), lambda _: "ends in the middle of its JSON"),
    (re.compile(r"Invalid UTF-8 encoded string"), lambda _: "holds bytes that are not UTF-8"),
    (re.compile(r"JSON is malformed: (.*)", re.DOTALL), lambda m: f"is not JSON: {m[1]}"),
)


def _choices(kind: type[msgspec.Struct], path: str) -> list[str]:
    """What may stand at ``path``: the values of the enumeration or literal that is there."""
    here: Any = inspect.type_info(kind)
    for step in path.replace("[...]", "[]").split("."):
        name = step.removesuffix("[]")
        here = next(field.type for field in here.fields if field.encode_name == name)
        if step.endswith("[]"):
            here = here.value_type if isinstance(here, inspect.DictType) else here.item_type
    if isinstance(here, inspect.EnumType):
        return [str(member.value) for member in here.cls]
    return [str(value) for value in here.values]
