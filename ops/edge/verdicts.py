"""Whether a reputation list may be used: pure rules that keep a bad list from cutting off honest customers."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from ops.edge.formats import Reading
from ops.edge.networks import Network, Shield, collapsed, size
from schemas.edge import ReputationList

WIDEST_PREFIX = {4: 8, 6: 16}
"""A network with a shorter prefix is a part of the internet, not somebody's."""

MOST_OF_ALL = 1 / 16
"""Larger parts of all IPv4 addresses, or of the IPv6 ones in use (2000::/3), are blocked by no honest list."""

MOST_UNREADABLE = 1 / 20
"""Share of lines without a network over which the content is no list: an error page, or another format."""

_IN_USE = {4: 2**32, 6: 2**125}


class Usable(msgspec.Struct, frozen=True, kw_only=True):
    """The list may be used.

    Attributes:
        networks: collapsed.
        skipped: networks left out because they are reserved or allowed.
        unreadable: lines that held no network.
    """

    networks: list[Network]
    skipped: int = 0
    unreadable: int = 0


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """The list must not be used; ``why`` says what is wrong with it."""

    why: str


def judge(reading: Reading, rules: ReputationList, shield: Shield, last: int | None) -> Usable | Unusable:
    """The verdict on a list that has just been read.

    Args:
        shield: what may not be blocked: reserved and allowed networks.
        last: how many networks the last good copy holds; None if there is none.
    """
    if reading.unreadable > reading.entries * MOST_UNREADABLE:
        return _unusable(
            f"{reading.unreadable:,} of {reading.entries:,} lines hold no address, the first is line "
            f"{reading.first_unreadable:,}: is it another format?"
        )
    if len(reading.networks) > rules.most_networks:
        return _unusable(f"has more than {rules.most_networks:,} networks (most_networks)")
    kept: list[Network] = []
    skipped = 0
    for network in reading.networks:
        if rules.reserved == "skip" and shield.holds(network):
            skipped += 1
        elif network.prefixlen < WIDEST_PREFIX[network.version]:
            return _unusable(f"would block {network}, a part of the internet")
        elif not shield.touches(network):
            kept.append(network)
        elif rules.reserved == "skip":
            skipped += 1
        else:
            return _unusable(
                f"would block {network}, which is or holds a private, loopback or allowed address "
                "(reserved: skip leaves such out)"
            )
    networks = collapsed(kept)
    for version, name in ((4, "IPv4"), (6, "IPv6")):
        if sum(size(each) for each in networks if each.version == version) > _IN_USE[version] * MOST_OF_ALL:
            return _unusable(f"would block more than 1/{1 / MOST_OF_ALL:.0f} of all {name} addresses")
    if last and len(networks) < last * rules.least_share:
        return _unusable(
            f"has shrunk from {last:,} networks to {len(networks):,} (least_share {rules.least_share:.0%})"
        )
    return Usable(networks=networks, skipped=skipped, unreadable=reading.unreadable)


def ends_at(fetched_at: datetime, rules: ReputationList) -> datetime:
    """When a copy fetched then is no longer to be used."""
    return fetched_at + timedelta(seconds=rules.expires)


def _unusable(why: str) -> Unusable:
    return Unusable(why=why)
