"""The gate's models that this installation has made: numbered files, never changed, and one that is in use."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from pathlib import Path

from producer.adapters.gate_model import load_model, packed
from producer.policy.text.content import ContentModel
from schemas.errors import NotFound, Refused

log = logging.getLogger("ticketmill")

SHIPPED_VERSION = 0
"""The model in the package, which is in use until another is chosen and can be gone back to at any time."""

LOOK_EVERY_S = 2.0

_NAME = re.compile(r"(\d{4,})\.npz")


class GateVersions:
    """A folder ``gate`` under ``home``: ``0001.npz`` and so on, and a file ``current`` that holds a number."""

    def __init__(self, home: str) -> None:
        self._folder = Path(home) / "gate"

    def numbers(self) -> list[int]:
        """Every version there is, the shipped one first."""
        names = os.listdir(self._folder) if self._folder.is_dir() else []
        return [SHIPPED_VERSION, *sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))]

    def current(self) -> int:
        """The one in use."""
        try:
            return int((self._folder / "current").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return SHIPPED_VERSION

    def load(self, number: int) -> ContentModel:
        """A version's model.

        Raises:
            NotFound: there is no such version.
            Refused: its file is no model that this program can use.
        """
        if number == SHIPPED_VERSION:
            return load_model()
        if number not in self.numbers():
            raise NotFound("version of the gate", str(number))
        return load_model(str(self._folder / f"{number:04d}.npz"))

    def add(self, model: ContentModel) -> int:
        """Keeps a model as the next version; returns its number. It is not in use yet."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = self.numbers()[-1] + 1
        (self._folder / f"{number:04d}.npz").write_bytes(packed(model))
        return number

    def use(self, number: int) -> None:
        """Puts a version in use; serving processes on this machine notice within seconds.

        Raises:
            NotFound: there is no such version.
            Refused: it cannot be used.
        """
        self.load(number)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._folder / "current.new"
        fresh.write_text(f"{number}\n", encoding="utf-8")
        fresh.replace(self._folder / "current")


class Renewal:
    """Puts the version in use into a gate that is at work, whenever it changes."""

    def __init__(self, versions: GateVersions, renew: Callable[[ContentModel], None]) -> None:
        self._versions = versions
        self._renew = renew
        self._number = versions.current()

    def turn(self) -> float:
        """One look; the time until the next, in seconds."""
        number = self._versions.current()
        if number != self._number:
            self._number = number
            try:
                self._renew(self._versions.load(number))
                log.info("the gate judges by version %d now", number)
            except (NotFound, Refused) as error:
                log.warning("the gate stays as it is: %s", error)
        return LOOK_EVERY_S
