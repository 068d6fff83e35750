"""The edge as nftables rules: settings in, a file for ``nft -f`` out. All in one table of ours; no other is touched.

The hook comes before connection tracking, so that a flood costs no entry there. What is loaded replaces the rules in
one transaction and keeps the bans and the reputation sets that are in force.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address

from ops.edge.networks import Network, Until, allowed
from schemas.edge import EdgeSettings

TABLE = "inet ticketmill_edge"

METER_S = 10
"""How long a quiet source is remembered. A bucket must have time to fill up again: what is forgotten begins full."""

MOST_SOURCES = 65_536
"""Sources metered or banned at once, for each set. Past that (a flood from forged addresses) newcomers go unmetered."""

BANNED = ("banned_v4", "banned_v6", "banned_networks_v6")
BLOCKED = {4: "blocked_v4", 6: "blocked_v6"}
COUNTERS = ("over_rate", "banned", "blocked")

_NETWORK = "ip6 saddr & ffff:ffff:ffff:ffff::"
_SYN = "tcp flags & (fin | syn | rst | ack) == syn"


def render(edge: EdgeSettings, api_port: int) -> str:
    """The whole rule set.

    Raises:
        SettingRefused: ``edge.allow`` holds what is no network.
    """
    networks = allowed(edge.allow)
    ports = ", ".join(map(str, sorted({*edge.ports, api_port})))
    ban = f"timeout {whole_seconds(edge.ban_time)}s"
    rate = f"timeout {METER_S}s limit rate over {edge.syn_rate}/second burst {edge.burst} packets"
    network_burst = max(edge.burst, edge.network_syn_rate // 2)
    network_rate = f"timeout {METER_S}s limit rate over {edge.network_syn_rate}/second burst {network_burst} packets"
    return f"""\
# Ticketmill's edge: who sends over {edge.syn_rate} new connections a second to a guarded port is cut off for a time.
# Made by `ticketmill edge render --for nftables`. Check it: nft -c -f FILE; load it: nft -f FILE; take it away:
# nft delete table {TABLE}. Loaded again, it keeps the bans and reputation sets in force.

table {TABLE} {{
{_objects()}
	chain over_rate_v4 {{ }}
	chain over_rate_v6 {{ }}
	chain over_rate_network_v6 {{ }}
	chain sources_v4 {{ }}
	chain sources_v6 {{ }}
	chain arriving {{
		type filter hook prerouting priority raw; policy accept;
	}}
}}

{_flushed()}

table {TABLE} {{
{_elements("allowed_v4", [each for each in networks if each.version == 4])}\
{_elements("allowed_v6", [each for each in networks if each.version == 6])}\
	chain over_rate_v4 {{
		update @banned_v4 {{ ip saddr {ban} }}
		counter name over_rate drop
	}}

	chain over_rate_v6 {{
		update @banned_v6 {{ ip6 saddr {ban} }}
		counter name over_rate drop
	}}

	chain over_rate_network_v6 {{
		update @banned_networks_v6 {{ {_NETWORK} {ban} }}
		counter name over_rate drop
	}}

	# The rate comes before the ban: a source that floods on stays banned until it has been quiet for the whole time.
	chain sources_v4 {{
		ip saddr @allowed_v4 return
		ip saddr @blocked_v4 counter name blocked drop
		{_SYN} update @rates_v4 {{ ip saddr {rate} }} goto over_rate_v4
		ip saddr @banned_v4 counter name banned drop
	}}

	# Whoever has one IPv6 address has a whole /64 of them: those together are held to a rate of their own.
	chain sources_v6 {{
		ip6 saddr @allowed_v6 return
		ip6 saddr @blocked_v6 counter name blocked drop
		{_SYN} update @rates_v6 {{ ip6 saddr {rate} }} goto over_rate_v6
		ip6 saddr @banned_v6 counter name banned drop
		{_SYN} update @network_rates_v6 {{ {_NETWORK} {network_rate} }} goto over_rate_network_v6
		{_NETWORK} @banned_networks_v6 counter name banned drop
	}}

	chain arriving {{
		iifname "lo" return
		tcp dport {{ {ports} }} meta nfproto vmap {{ ipv4 : jump sources_v4, ipv6 : jump sources_v6 }}
	}}
}}
"""


def replace_blocked(blocked: Sequence[Until], now: float) -> str:
    """Puts these in the reputation sets in place of what is there, in one transaction.

    Args:
        blocked: without overlaps.
        now: seconds since 1970.
    """
    lines: list[str] = []
    for version, name in BLOCKED.items():
        lines.append(f"flush set {TABLE} {name}")
        elements = [_stretch(each, now) for each in blocked if each.version == version and each.until > now]
        if elements:
            lines.append(f"add element {TABLE} {name} {{\n{_joined(elements)}\n}}")
    return "\n".join(lines) + "\n"


def whole_seconds(wait_s: float) -> int:
    """Rounded up, since 0 would mean for ever."""
    return max(1, math.ceil(wait_s))


def _objects() -> str:
    counters = [f"\tcounter {name} {{ }}" for name in COUNTERS]
    sets = [
        *(_set(f"allowed_v{version}", version, "interval") for version in (4, 6)),
        *(_set(name, version, "interval, timeout") for version, name in BLOCKED.items()),
        *(_set(name, 4 if name.endswith("4") else 6, "dynamic, timeout", MOST_SOURCES) for name in (*_RATES, *BANNED)),
    ]
    return "\n".join([*counters, "", *sets])


_RATES = ("rates_v4", "rates_v6", "network_rates_v6")


def _set(name: str, version: int, flags: str, size: int = 0) -> str:
    limit = f" size {size};" if size else ""
    return f"\tset {name} {{ type ipv{version}_addr;{limit} flags {flags}; }}"


def _flushed() -> str:
    # A meter keeps the rate that it was made with: the meters begin anew under the new rate.
    sets = [f"flush set {TABLE} {name}" for name in ("allowed_v4", "allowed_v6", *_RATES)]
    chains = ("arriving", "sources_v4", "sources_v6", "over_rate_v4", "over_rate_v6", "over_rate_network_v6")
    return "\n".join([*sets, *(f"flush chain {TABLE} {name}" for name in chains)])


def _elements(name: str, networks: Sequence[Network]) -> str:
    if not networks:
        return ""
    version = networks[0].version
    return (
        f"\tset {name} {{ type ipv{version}_addr; flags interval; elements = {{\n"
        f"{_joined(map(str, networks))}\n\t}} }}\n\n"
    )


def _stretch(each: Until, now: float) -> str:
    address = IPv4Address if each.version == 4 else IPv6Address
    first, last = address(each.first), address(each.last)
    stretch = str(first) if first == last else f"{first}-{last}"
    return f"{stretch} timeout {whole_seconds(each.until - now)}s"


def _joined(elements: Iterable[str]) -> str:
    return ",\n".join(f"\t\t{each}" for each in elements)
