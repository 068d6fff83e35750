"""Memory of the machine, as the process that lives on it must see it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import NamedTuple

import psutil

CGROUP = Path("/sys/fs/cgroup")


class Memory(NamedTuple):
    """Bytes in use and bytes there are."""

    used_bytes: int
    total_bytes: int

    @property
    def free_bytes(self) -> int:
        """What is left."""
        return max(0, self.total_bytes - self.used_bytes)


def host_memory(cgroup: Path = CGROUP) -> Memory:
    """The machine's memory, or the container's where its limit is nearer. Cache that gives way counts as free."""
    machine = psutil.virtual_memory()
    whole = Memory(machine.total - machine.available, machine.total)
    container = _container(cgroup)
    return container if container is not None and container.free_bytes < whole.free_bytes else whole


def resident_bytes() -> int:
    """What this process holds of the machine's memory."""
    return int(psutil.Process().memory_info().rss)


def give_back() -> None:
    """Has the C library return freed memory to the system, where it is one that can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _container(cgroup: Path) -> Memory | None:
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        cache = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        if limit == "max":
            return None
        return Memory(max(0, used - int(cache.get("inactive_file", "0"))), int(limit))
    except (OSError, ValueError):
        return None  # no control groups here (or of the first version): the machine's figures stand
