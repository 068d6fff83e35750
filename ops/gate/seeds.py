"""Texts written for the project where no open data exists: Chinese spam, promotion of every kind, honest look-alikes
of spam, machine text, and newer forms of creative writing. Each line of a file in seeds/ is a pattern; ``{a|b}`` is a
choice, ``{link}`` and its like a contact detail."""

from __future__ import annotations

import functools
import random
import re
from importlib.resources import files

from ops.gate.details import DETAILS

_CHOICE = re.compile(r"\{([^{}]*)\}")
_OPEN, _CLOSE = "\x01", "\x02"


@functools.cache
def patterns(name: str) -> tuple[str, ...]:
    """The lines of seeds/``name``.txt."""
    lines = (files("ops.gate") / "seeds" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.replace("\\n", "\n").replace("\\t", "\t") for line in lines if line)


def written(pattern: str, chance: random.Random) -> str:
    """One text of a pattern."""
    text = pattern.replace("\\{", _OPEN).replace("\\}", _CLOSE)

    def chosen(match: re.Match[str]) -> str:
        make = DETAILS.get(match[1])
        return make(chance) if make else chance.choice(match[1].split("|"))

    while _CHOICE.search(text):
        text = _CHOICE.sub(chosen, text)
    return text.replace(_OPEN, "{").replace(_CLOSE, "}").strip()
