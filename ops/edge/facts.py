"""What the edge does now: the lists' copies, and what the kernel holds. Fetches nothing and changes nothing."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ops.edge import copies, kernel, sources
from ops.edge.kernel import InForce
from ops.edge.sync import folder
from ops.edge.verdicts import ends_at
from schemas.errors import Unavailable
from schemas.settings import Settings


class ListFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The last good copy of a list; ``fetched_at`` is None where there is no copy yet."""

    name: str
    source: str
    networks: int = 0
    fetched_at: datetime | None = None
    expires_at: datetime | None = None
    expired: bool = False


class EdgeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``kernel`` is None where it cannot be asked; ``why`` then says why."""

    lists: list[ListFacts]
    kernel: InForce | None
    why: str = ""


def edge_facts(settings: Settings, now: datetime) -> EdgeFacts:
    """The facts at this moment.

    Raises:
        Unavailable: the copies cannot be read.
    """
    lists = [_list_facts(settings, name, now) for name in settings.edge.lists]
    try:
        return EdgeFacts(lists=lists, kernel=kernel.in_force(now))
    except Unavailable as error:
        return EdgeFacts(lists=lists, kernel=None, why=str(error))


def _list_facts(settings: Settings, name: str, now: datetime) -> ListFacts:
    rules = settings.edge.lists[name]
    copy = copies.read(folder(settings), name)
    if copy is None or not copy.of(rules):
        return ListFacts(name=name, source=sources.shown(rules.source))
    expires_at = ends_at(copy.fetched_at, rules)
    return ListFacts(
        name=name,
        source=sources.shown(rules.source),
        networks=len(copy.networks),
        fetched_at=copy.fetched_at,
        expires_at=expires_at,
        expired=expires_at <= now,
    )
