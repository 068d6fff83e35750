"""Settings of the edge: who is turned away before a connection exists."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from schemas.ticket import Name
from schemas.units import Bytes, Listed, Ports, Seconds, Share

PerSecond = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ReputationList(_Section, frozen=True, kw_only=True):
    """A list of addresses with a bad name, fetched by ``ticketmill edge sync``."""

    source: Annotated[str, msgspec.Meta(min_length=1)]
    """A file's absolute path, or a URL."""
    format: Literal["auto", "lines", "jsonl", "csv"] = "auto"
    """How it is written; ``auto`` looks."""
    column: str = ""
    """The CSV column's name or number, or the JSON field's name; empty: the one that holds addresses."""
    expires: Seconds = Seconds(2 * 86_400.0)
    """How long a copy is used after it was fetched."""
    largest: Bytes = Bytes(16_000_000)
    """A larger list is not used."""
    most_networks: Annotated[int, msgspec.Meta(ge=1)] = 200_000
    """A longer list is not used."""
    least_share: Share = Share(0.5)
    """A copy that has shrunk to less than this share of the last one is not believed."""
    reserved: Literal["refuse", "skip"] = "refuse"
    """What becomes of a list that holds loopback, private or allowed addresses: not used, or used without those."""


class HaproxySettings(_Section, frozen=True, kw_only=True):
    """What ``ticketmill edge render --for haproxy`` writes besides the rules."""

    bind: Listed = Listed((":::80 v4v6",))
    """For each place to listen, what follows the word ``bind``."""
    server: str = ""
    """Host and port of the API; empty: ``http.host`` and ``http.port``."""


class EdgeSettings(_Section, frozen=True, kw_only=True):
    """Who is turned away before a connection exists. See docs/edge.md."""

    ports: Ports = Ports((80, 443))
    """Guarded ports, besides ``http.port``."""
    syn_rate: PerSecond = 1000
    """New connections a second from one address over which it is banned."""
    burst: PerSecond = 500
    """How many of them may come at once."""
    network_syn_rate: PerSecond = 4000
    """The same as ``syn_rate`` for all addresses of an IPv6 /64 together."""
    ban_time: Seconds = Seconds(600.0)
    """How long it is banned, counted from when it last was over the rate."""
    allow: Listed = Listed()
    """Addresses, networks and ranges ``a-b`` that are never turned away."""
    lists: dict[Name, ReputationList] = {}
    """Reputation lists, by name."""
    haproxy: HaproxySettings = HaproxySettings()
