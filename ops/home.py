"""The folder that holds what Ticketmill keeps on disk, and the lock that keeps two installations out of one folder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from schemas.errors import SettingRefused, Unavailable

PREDECESSOR_S = 20.0
"""How long we wait for the children of a killed predecessor to end: their leash gives them five seconds."""

LONGEST_SOCKET_PATH_BYTES = 100
"""A Unix socket's address holds 104 bytes on macOS and 108 on Linux, with its final zero."""


def prepare(home: str) -> Path:
    """Makes the folder, readable by its owner alone.

    Raises:
        SettingRefused: it cannot be made, or its path is too long for the broker's socket.
    """
    folder = Path(home)
    if len(os.fsencode(folder / "broker.sock")) > LONGEST_SOCKET_PATH_BYTES:
        raise SettingRefused("home", f"{folder} is too long a path for a Unix socket inside it; choose a shorter one")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SettingRefused("home", f"{folder} cannot be made: {error.strerror}") from None
    return folder


def take(folder: Path) -> int:
    """Takes the folder for this process and its children; returns the lock's file descriptor.

    The lock lasts until the last process that holds the descriptor is gone, kill -9 included.

    Raises:
        Unavailable: another installation runs on it.
    """
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingRefused("home", f"{folder} cannot be written: {error.strerror}") from None
    deadline = time.monotonic() + PREDECESSOR_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = int(os.pread(lock, 20, 0) or b"0")
            if _lives(holder) or time.monotonic() > deadline:
                os.close(lock)
                why = f"is already up (process {holder})"
                raise Unavailable(f"ticketmill on {folder}", why, "Stop it first, or give another home") from None
            time.sleep(0.1)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return lock


def _lives(process: int) -> bool:
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
