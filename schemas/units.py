"""Quantities as people write them in settings: ``50%``, ``200ms``, ``64MB``; and several values in one setting.

Each quantity is a plain number once parsed, so that arithmetic needs no conversion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Self

_NUMBER = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%]*)\s*$")

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}


def _split(text: str, example: str) -> tuple[float, str]:
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; write it like {example}")
    return float(match[1]), match[2]


def _finite(value: float, example: str) -> float:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{value} is not a quantity; write it like {example}")
    return value


class Seconds(float):
    """A length of time in seconds; text may use ``ms s m h d``; a bare number is seconds."""

    @classmethod
    def parse(cls, value: str | float) -> Self:
        """Raises ValueError, with an example, for what is no duration."""
        if isinstance(value, str):
            number, unit = _split(value, "200ms, 30s or 5m")
            if unit and unit not in _SECONDS:
                raise ValueError(f"{unit!r} is no unit of time; use ms, s, m, h or d")
            value = number * _SECONDS.get(unit, 1.0)
        return cls(_finite(value, "200ms, 30s or 5m"))


class Share(float):
    """A part of a whole, 0 to 1; text may be ``90%``. A bare number over 1 is refused as ambiguous."""

    @classmethod
    def parse(cls, value: str | float) -> Self:
        """Raises ValueError, with an example, for what is no share."""
        if isinstance(value, str):
            number, unit = _split(value, "90% or 0.9")
            if unit not in ("", "%"):
                raise ValueError(f"{value!r} is not a share; write it like 90% or 0.9")
            value = number / 100 if unit == "%" else number
        value = _finite(value, "90% or 0.9")
        if value > 1:
            raise ValueError(f"{value:g} is more than the whole; write it like 90% or 0.9")
        return cls(value)


class Percent(float):
    """Hundredths of a whole, 0 to 100; text may use ``%``."""

    @classmethod
    def parse(cls, value: str | float) -> Self:
        """Raises ValueError, with an example, for what is no percentage."""
        if isinstance(value, str):
            number, unit = _split(value, "80 or 80%")
            if unit not in ("", "%"):
                raise ValueError(f"{value!r} is not a percentage; write it like 80 or 80%")
            value = number
        value = _finite(value, "80 or 80%")
        if value > 100:
            raise ValueError(f"{value:g} is more than the whole; write it like 80 or 80%")
        return cls(value)


class Bytes(int):
    """A size in bytes; text may use ``kB MB GB`` (powers of 1000) or ``KiB MiB GiB``."""

    @classmethod
    def parse(cls, value: str | float) -> Self:
        """Raises ValueError, with an example, for what is no size."""
        if isinstance(value, str):
            number, unit = _split(value, "64MB or 1GiB")
            if unit and unit.lower() not in _BYTES:
                raise ValueError(f"{unit!r} is no unit of size; use kB, MB, GB, KiB, MiB or GiB")
            value = number * _BYTES.get(unit.lower(), 1)
        return cls(_finite(value, "64MB or 1GiB"))


class Listed(tuple[str, ...]):
    """Several texts: a list in the file, or one text with commas between them, as the environment needs it."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: str | float | Sequence[object]) -> Self:
        """Never fails; blanks around a text do not count, and neither does a text of nothing else."""
        parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int | float) else value
        return cls(text for part in parts if (text := str(part).strip()))

    def __str__(self) -> str:
        return ", ".join(self)


class Ports(tuple[int, ...]):
    """Several ports, written like the texts of ``Listed``."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: str | float | Sequence[object]) -> Self:
        """Raises ValueError, with an example, for what is no port."""
        texts = Listed.parse(value)
        for text in texts:
            if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535):
                raise ValueError(f"{text!r} is no port; write them like 80, 443")
        return cls(sorted({int(text) for text in texts}))

    def __str__(self) -> str:
        return ", ".join(map(str, self))
