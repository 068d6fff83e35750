"""docs/settings.md, made from the settings' own types and words: ``python -m ops.settings_page > docs/settings.md``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, get_args, get_origin

import msgspec

from schemas.edge import ReputationList
from schemas.job import Job
from schemas.model import ModelSettings
from schemas.retry_matrix import RetryRow
from schemas.settings import Settings
from schemas.units import Bytes, Listed, Percent, Ports, Seconds, Share

INTRODUCTION = """\
# Settings

Settings live in `ticketmill.yaml` in the working directory, or in the file that `--config` or `TICKETMILL_CONFIG`
names, and in the environment, which wins: `broker.url` in the file is `TICKETMILL_BROKER_URL` there. What is not known
is refused by name. Secrets belong in the environment.

Durations are written like `200ms`, `30s` or `5m`, shares like `90%` or `0.9`, percentages like `80%` or `80`,
sizes like `64MB` or `1GiB`.

`TICKETMILL_DEBUG` shows tracebacks where a command would print one line. `TICKETMILL_URL` and `TICKETMILL_KEY` are for
the Python client. None of the three is a setting.

This page is made from the code by `python -m ops.settings_page`; a test holds the two equal.
"""

_KINDS: dict[Any, str] = {
    Seconds: "duration",
    Share: "share",
    Percent: "percent",
    Bytes: "size",
    Listed: "list, or text with commas",
    Ports: "list, or text with commas",
    str: "text",
    bool: "true or false",
    int: "number",
    float: "number",
}


def settings_page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_section(Settings, ())])


def _section(section: type[msgspec.Struct], path: tuple[str, ...]) -> Iterator[str]:
    title = ".".join(path)
    yield f"## {title or 'Top level'}\n\n{_plain((inspect.getdoc(section) or '').partition('Attributes:')[0])}.\n"
    says = _words(section) | _attributes(section)
    rows: list[str] = []
    inner: list[tuple[type[msgspec.Struct], tuple[str, ...]]] = []
    for each in msgspec.structs.fields(section):
        where = (*path, each.name)
        if isinstance(each.type, type) and issubclass(each.type, msgspec.Struct):
            inner.append((each.type, where))
            continue
        if where == ("models",):
            inner.append((ModelSettings, ("models", "NAME")))
        elif where == ("jobs",):
            inner.append((Job, ("jobs", "NAME")))
        elif where == ("edge", "lists"):
            inner.append((ReputationList, ("edge", "lists", "NAME")))
        elif where == ("retry",):
            inner.append((RetryRow, ("retry", "KIND")))
        rows.append(f"| `{'.'.join(where)}` | {_kind(each.type)} | {_default(each)} | {says.get(each.name, '')} |")
    if rows:
        yield "| setting | is | default | means |\n| --- | --- | --- | --- |"
        yield from rows
        yield ""
    for kind, where in inner:
        yield from _section(kind, where)


def _words(section: type[msgspec.Struct]) -> dict[str, str]:
    """What stands under each field in the source, which no object keeps."""
    (definition,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(definition, ast.ClassDef)
    words: dict[str, str] = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                words[name] = _plain(said)
            case _:
                continue
    return words


def _attributes(section: type[msgspec.Struct]) -> dict[str, str]:
    """The same from the ``Attributes`` of its docstring: deeper lines go on with the one before."""
    words: dict[str, str] = {}
    name = ""
    for line in (inspect.getdoc(section) or "").partition("Attributes:\n")[2].splitlines():
        said = line
        if not line.startswith("     "):
            name, _, said = line.strip().partition(":")
        words[name] = _plain(f"{words.get(name, '')} {said}")
    return words


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").removesuffix(".")


def _kind(kind: Any) -> str:
    if kind in _KINDS:
        return _KINDS[kind]
    arguments = get_args(kind)
    if type(None) in arguments:
        return _kind(arguments[0])
    if all(isinstance(each, str) for each in arguments) and arguments:
        return " \\| ".join(f"`{each}`" for each in arguments)
    if get_origin(kind) is dict:
        return "mapping by name"
    if hasattr(kind, "__metadata__"):
        return _kind(arguments[0])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return " \\| ".join(f"`{each.value}`" for each in kind)
    return "list" if get_origin(kind) in (list, tuple) else "any"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "(required)"
    value = field.default if field.default is not msgspec.NODEFAULT else None
    if value is None or value in ("", (), {}):
        return ""
    match value:
        case Seconds():
            return f"`{value:g}s`"
        case Share():
            return f"`{value:.0%}`"
        case bool():
            return "`true`" if value else "`false`"
        case _:
            return f"`{value}`".replace("\n", "\\n")


if __name__ == "__main__":
    print(settings_page(), end="")
