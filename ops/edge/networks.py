"""Networks as values: reading one, those that no list may block, and many lists made into one without overlaps.

A span is a pair of whole numbers, the first and the last address of a stretch, both included.
"""

from __future__ import annotations

import bisect
import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple

from schemas.errors import SettingRefused

Network = IPv4Network | IPv6Network

RESERVED: tuple[Network, ...] = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.168.0.0/16", "224.0.0.0/3",
            "::/127", "::ffff:0:0/96", "64:ff9b::/96", "fc00::/7", "fe80::/10", "ff00::/8",
        ),
    )
)  # fmt: skip
"""Loopback, private and shared addresses, link-local ones, multicast: never a stranger's on the internet, so a list
that holds them can only cut off the machine from its own proxies, probes and neighbours."""

_MAPPED = IPv6Network("::ffff:0:0/96")


class Until(NamedTuple):
    """A stretch of addresses of one IP version, and the moment (seconds since 1970) until which it is blocked."""

    version: int
    first: int
    last: int
    until: float


def networks(text: str) -> list[Network]:
    """The networks that one address, network (also with bits set behind its prefix) or range ``first-last`` stands for.

    Raises:
        ValueError: it is none of these.
    """
    if "-" in text:
        first, _, last = text.partition("-")
        return _between(ipaddress.ip_address(first.strip()), ipaddress.ip_address(last.strip()))
    if "%" in text:
        raise ValueError(f"{text!r} means an address on one link")
    network = ipaddress.ip_network(text, strict=False)
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return [IPv4Network((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96))]
    return [network]


def _between(first: IPv4Address | IPv6Address, last: IPv4Address | IPv6Address) -> list[Network]:
    if isinstance(first, IPv4Address) and isinstance(last, IPv4Address):
        return [*ipaddress.summarize_address_range(first, last)]
    if isinstance(first, IPv6Address) and isinstance(last, IPv6Address):
        return [*ipaddress.summarize_address_range(first, last)]
    raise ValueError(f"{first}-{last} goes from one IP version to the other")


def collapsed(many: Iterable[Network]) -> list[Network]:
    """The same addresses in as few networks as possible, IPv4 first, in order."""
    by_version: dict[int, list[Network]] = {4: [], 6: []}
    for network in many:
        by_version[network.version].append(network)
    return [
        *ipaddress.collapse_addresses(each for each in by_version[4] if isinstance(each, IPv4Network)),
        *ipaddress.collapse_addresses(each for each in by_version[6] if isinstance(each, IPv6Network)),
    ]


def allowed(texts: Iterable[str]) -> list[Network]:
    """The networks of ``edge.allow``.

    Raises:
        SettingRefused: one is no address, network or range.
    """
    found: list[Network] = []
    for text in texts:
        try:
            found += networks(text)
        except ValueError:
            raise SettingRefused("edge.allow", f"{text!r} is no address, network or range") from None
    return collapsed(found)


class Shield:
    """Networks that must not be blocked, asked about quickly."""

    def __init__(self, shielded: Iterable[Network]) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
        for network in collapsed(shielded):
            self._spans[network.version].append(span(network))

    def touches(self, network: Network) -> bool:
        """At least one address of it is shielded."""
        first, last = span(network)
        # Stretches do not overlap: of those that begin before its end, the last one reaches furthest.
        before = self._last_from(network.version, last)
        return before is not None and before[1] >= first

    def holds(self, network: Network) -> bool:
        """All of it is shielded."""
        first, last = span(network)
        before = self._last_from(network.version, first)
        return before is not None and before[1] >= last

    def _last_from(self, version: int, address: int) -> tuple[int, int] | None:
        spans = self._spans[version]
        place = bisect.bisect_right(spans, address, key=lambda each: each[0])
        return spans[place - 1] if place else None


def span(network: Network) -> tuple[int, int]:
    """First and last address."""
    # Not by the library's broadcast_address, which makes an object: a quarter of the time that a long list takes.
    first = int(network.network_address)
    return first, first + size(network) - 1


def size(network: Network) -> int:
    """How many addresses it holds."""
    return 1 << (network.max_prefixlen - network.prefixlen)


def merged(lists: Iterable[tuple[Sequence[Network], float]]) -> Iterator[Until]:
    """Several lists as one without overlaps, in order. An address on more than one stays until the last of them ends.

    Args:
        lists: networks, and the moment until which they are blocked.
    """
    edges: dict[int, list[tuple[int, int, float]]] = {4: [], 6: []}
    for many, until in lists:
        for network in many:
            first, last = span(network)
            edges[network.version] += ((first, 1, until), (last + 1, -1, until))
    for version, of_version in edges.items():
        yield from _swept(version, sorted(of_version))


def _swept(version: int, edges: list[tuple[int, int, float]]) -> Iterator[Until]:
    open_now: Counter[float] = Counter()
    since, until = 0, 0.0
    for at, group in _by_place(edges):
        for step, end in group:
            open_now[end] += step
        latest = max((end for end, count in open_now.items() if count), default=0.0)
        if latest != until:
            if until:
                yield Until(version, since, at - 1, until)
            since, until = at, latest


def _by_place(edges: list[tuple[int, int, float]]) -> Iterator[tuple[int, list[tuple[int, float]]]]:
    start = 0
    while start < len(edges):
        end = start
        while end < len(edges) and edges[end][0] == edges[start][0]:
            end += 1
        yield edges[start][0], [(step, until) for _, step, until in edges[start:end]]
        start = end
