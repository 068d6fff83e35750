"""The edge as HAProxy configuration, for those who end TCP there: settings in, a file for ``haproxy -f`` out."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from ops.edge.networks import Until, allowed
from ops.edge.nftables import whole_seconds
from schemas.edge import EdgeSettings
from schemas.errors import SettingRefused
from schemas.settings import HttpSettings

RATE_S = 10
"""How long a quiet source is remembered."""

MOST_SOURCES = "100k"


def render(edge: EdgeSettings, http: HttpSettings, blocked: Path) -> str:
    """The whole configuration: tables, a frontend that listens, a backend that is the API.

    Args:
        blocked: the file that ``ticketmill edge sync`` writes; named only where there are lists.

    Raises:
        SettingRefused: ``edge.allow`` holds what is no network, or a line for HAProxy is none.
    """
    binds = [_one_line("edge.haproxy.bind", each) for each in edge.haproxy.bind]
    if not binds:
        raise SettingRefused("edge.haproxy.bind", "must name at least one place to listen, like :80")
    server = _one_line("edge.haproxy.server", edge.haproxy.server or f"{_host(http.host)}:{http.port}")
    acls = [f"acl allowed src {each}" for each in allowed(edge.allow)]
    accept = ["tcp-request connection accept if allowed"] if acls else []
    if edge.lists:
        acls.append(f"acl blocked src -f {_quoted(blocked)}")
        accept.append("tcp-request connection reject if blocked")
    return f"""\
# Ticketmill's edge: who opens more than {edge.syn_rate} connections a second is turned away for a time.
# Made by `ticketmill edge render --for haproxy`. Check it: haproxy -c -f FILE.

defaults ticketmill
	mode http
	timeout connect 5s
	timeout client 60s
	timeout server 300s
	timeout http-request 10s
	timeout http-keep-alive 30s

# Keyed by IPv6 address; HAProxy maps IPv4 ones into it.
backend ticketmill_rates from ticketmill
	stick-table type ipv6 size {MOST_SOURCES} expire {RATE_S}s store conn_rate(1s)

backend ticketmill_networks from ticketmill
	stick-table type ipv6 size {MOST_SOURCES} expire {RATE_S}s store conn_rate(1s)

backend ticketmill_banned from ticketmill
	stick-table type ipv6 size {MOST_SOURCES} expire {whole_seconds(edge.ban_time)}s store conn_cnt

frontend ticketmill_door from ticketmill
{_indented([*(f"bind {each}" for each in binds), *acls, *accept])}\
	tcp-request connection track-sc0 src table ticketmill_rates
	# A source that floods on stays banned until it has been quiet for the whole time.
	tcp-request connection track-sc1 src table ticketmill_banned if {{ sc0_conn_rate gt {edge.syn_rate} }}
	tcp-request connection reject if {{ src,in_table(ticketmill_banned) }}
	# Whoever has one IPv6 address has a whole /64 of them: those together are held to a rate of their own.
	tcp-request connection track-sc2 src,ipmask(32,64) table ticketmill_networks
	tcp-request connection reject if {{ sc2_conn_rate gt {edge.network_syn_rate} }}
	http-request set-header X-Forwarded-For %[src]
	default_backend ticketmill_api

backend ticketmill_api from ticketmill
	server api {server}
"""


def blocked_file(blocked: Iterable[Until], now: float) -> str:
    """What HAProxy reads with ``src -f``: a network a line.

    Args:
        now: seconds since 1970.
    """
    return "".join(f"{line}\n" for each in blocked if each.until > now for line in _networks(each))


def _networks(each: Until) -> Iterator[str]:
    if each.version == 4:
        yield from map(str, ipaddress.summarize_address_range(IPv4Address(each.first), IPv4Address(each.last)))
    else:
        yield from map(str, ipaddress.summarize_address_range(IPv6Address(each.first), IPv6Address(each.last)))


def _host(host: str) -> str:
    # What listens everywhere is reached here.
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _one_line(setting: str, text: str) -> str:
    if not text.isprintable() or "#" in text:
        raise SettingRefused(setting, "must be one line of plain text, without #")
    return text


def _quoted(path: Path) -> str:
    text = _one_line("home", str(path))
    return '"' + "".join(f"\\{one}" if one in '\\"$' else one for one in text) + '"'


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"\t{line}\n" for line in lines)
