"""The kernel's side of the edge: loading what nft understands, and asking what is in force."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ops.edge.nftables import BANNED, BLOCKED, COUNTERS, TABLE
from schemas.errors import Unavailable

LOAD = "Load the rules first: ticketmill edge render --for nftables > edge.nft && nft -f edge.nft"


class Ban(msgspec.Struct, frozen=True, kw_only=True):
    """A source that is cut off for its rate; ``source`` is an address, or a network of IPv6; ``until`` is None for one
    that somebody put there by hand and without end."""

    source: str
    until: datetime | None


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel holds.

    Attributes:
        bans: sources cut off now, the last to end first.
        blocked: stretches of addresses in the reputation sets, by IP version.
        dropped: packets dropped since the table was loaded, by reason.
    """

    bans: list[Ban]
    blocked: dict[str, int]
    dropped: dict[str, int]


def replace(script: str) -> None:
    """Has the kernel do all of this, or none of it.

    Raises:
        Unavailable: there is no nft, we may not use it, or our table is not loaded.
    """
    _nft(["-f", "-"], script)


def require_loaded() -> None:
    """Raises Unavailable, saying what to run, unless our table is in the kernel."""
    _nft(["-t", "list", "table", *TABLE.split()])


def in_force(now: datetime) -> InForce:
    """What the kernel does at this moment.

    Raises:
        Unavailable: there is no nft, we may not use it, or our table is not loaded.
    """
    bans = [
        Ban(source=f"{each['val']}/64" if "networks" in name else each["val"], until=_until(each, now))
        for name in BANNED
        for each in _elements(name)
    ]
    counters = {each["name"]: each["packets"] for each in _listed("counters", "table", *TABLE.split(), what="counter")}
    return InForce(
        bans=sorted(bans, key=lambda ban: (ban.until or _NEVER, ban.source), reverse=True),
        blocked={f"ipv{version}": len(_elements(name)) for version, name in BLOCKED.items()},
        dropped={name: counters.get(name, 0) for name in COUNTERS},
    )


_NEVER = datetime.max.replace(tzinfo=UTC)


def _until(element: dict[str, Any], now: datetime) -> datetime | None:
    return now + timedelta(seconds=element["expires"]) if "expires" in element else None


def _elements(name: str) -> list[dict[str, Any]]:
    (found,) = _listed("set", *TABLE.split(), name, what="set")
    plain = (each if isinstance(each, dict) else {"val": each} for each in found.get("elem", []))
    return [each.get("elem", each) for each in plain]


def _listed(*words: str, what: str) -> list[dict[str, Any]]:
    answer = msgspec.json.decode(_nft(["-j", "list", *words]))
    return [each[what] for each in answer["nftables"] if what in each]


def _nft(arguments: list[str], script: str | None = None) -> str:
    # Debian keeps it where only root looks.
    program = shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if program is None:
        raise Unavailable("nftables", "nft is not installed", "On Debian: apt-get install nftables")
    done = subprocess.run([program, *arguments], input=script, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    why = done.stderr.strip().splitlines()[0].removeprefix("Error: ") if done.stderr.strip() else "nft failed"
    if os.geteuid() != 0:
        raise Unavailable("nftables", why, "Only root may see or change what the kernel filters")
    raise Unavailable("nftables", why, LOAD if "No such file" in why else "Try: nft list table " + TABLE)
