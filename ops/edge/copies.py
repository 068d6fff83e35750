"""The last good copy of each reputation list, kept on disk for the day its source fails."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec

from schemas.edge import ReputationList
from schemas.errors import Unavailable


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A list that was judged usable.

    Attributes:
        source, format, column: where it came from and how it was read: under other settings it is another list.
        fetched_at: when its source last said that it is current.
        networks: collapsed, as text.
    """

    source: str
    format: str
    column: str
    fetched_at: datetime
    networks: list[str]
    etag: str = ""
    modified: str = ""

    def of(self, rules: ReputationList) -> bool:
        """It is a copy of the list that these settings name."""
        return (self.source, self.format, self.column) == (rules.source, rules.format, rules.column)


def read(folder: Path, name: str) -> Copy | None:
    """The copy of that name; None if there is none, or none that can be understood.

    Raises:
        Unavailable: there is one that we may not read.
    """
    try:
        return msgspec.json.decode(_place(folder, name).read_bytes(), type=Copy)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise _unavailable(folder, error) from None


def write(folder: Path, name: str, copy: Copy) -> None:
    """Keeps it, in place of the one before, whole or not at all.

    Raises:
        Unavailable: the folder cannot be written.
    """
    replace(_place(folder, name), msgspec.json.encode(copy), mode=0o600)


def replace(path: Path, content: bytes, mode: int) -> None:
    """The file's content in one step, its folder made if need be.

    Raises:
        Unavailable: it cannot be written.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise _unavailable(path.parent, error) from None


def _place(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _unavailable(folder: Path, error: OSError) -> Unavailable:
    fix = "Run it as the user whose home that is, or set `home`"
    return Unavailable(f"the copies in {folder}", error.strerror or "not usable", fix)
