"""Whom the gate trusts: their tickets are judged by what they say, and never by how many come how fast."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from schemas.errors import SettingRefused
from schemas.ticket import Ticket

NAMES = ("tenant", "source", "customer")


class Trusted:
    """Networks whose requests, and names whose tickets, are not counted.

    Args:
        entries: networks in CIDR form, and ``tenant:NAME``, ``source:NAME`` or ``customer:NAME``.

    Raises:
        SettingRefused: an entry is neither.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._names: dict[str, set[str]] = {kind: set() for kind in NAMES}
        for entry in entries:
            kind, separator, name = entry.partition(":")
            if separator and kind in NAMES and name:
                self._names[kind].add(name)
                continue
            try:
                self._networks.append(ipaddress.ip_network(entry))
            except ValueError:
                raise SettingRefused(
                    "anti_spam.behavior.trusted",
                    f"has {entry!r}, which is no network like 10.0.0.0/8 and does not begin with "
                    + ", ".join(f"{each}:" for each in NAMES),
                ) from None

    def address(self, address: str) -> bool:
        """Is this address within a trusted network?"""
        try:
            place = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(place in network for network in self._networks)

    def ticket(self, ticket: Ticket) -> bool:
        """Does this ticket bear a trusted name?"""
        return any(getattr(ticket, kind) in names for kind, names in self._names.items() if names)
