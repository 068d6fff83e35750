"""Networks as values: what is shielded, and many lists made into one."""

from __future__ import annotations

import ipaddress
import itertools
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.edge.networks import RESERVED, Shield, collapsed, merged, networks

# A space so small that every address of it can be asked about.
SPACE = int(ipaddress.ip_address("203.0.113.0"))
SMALL = st.builds(
    lambda first, prefix: IPv4Network((SPACE + first, prefix), strict=False),
    st.integers(0, 255),
    st.integers(24, 32),
)
ADDRESSES = [ipaddress.ip_network((SPACE + each, 32)) for each in range(256)]


@given(st.lists(st.tuples(st.lists(SMALL, max_size=6), st.sampled_from([10.0, 20.0, 30.0])), max_size=4))
def test_an_address_is_blocked_until_the_last_of_its_lists_ends(lists: list[tuple[list[IPv4Network], float]]) -> None:
    one = [*merged(lists)]
    for address in ADDRESSES:
        place = int(address.network_address)
        expected = max((until for many, until in lists if any(map(address.subnet_of, many))), default=None)
        held = [each.until for each in one if each.first <= place <= each.last]
        assert held == ([] if expected is None else [expected])


@given(st.lists(st.tuples(st.lists(SMALL, max_size=6), st.sampled_from([10.0, 20.0])), max_size=4))
def test_stretches_are_in_order_apart_and_as_few_as_can_be(lists: list[tuple[list[IPv4Network], float]]) -> None:
    one = [*merged(lists)]
    for before, after in itertools.pairwise(one):
        assert before.last < after.first
        assert before.last + 1 < after.first or before.until != after.until


def test_both_versions_are_kept_apart() -> None:
    lists = [(networks("0.0.0.1") + networks("::1") + networks("255.255.255.255"), 1.0)]
    ends = 2**128 - 1
    assert [(each.version, each.first) for each in merged(lists)] == [(4, 1), (4, 2**32 - 1), (6, 1)]
    assert [each.last for each in merged([(networks("ffff::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), 1.0)])] == [ends]


@given(st.lists(SMALL, max_size=8), SMALL)
def test_the_shield_knows_what_it_touches_and_what_it_holds(shielded: list[IPv4Network], asked: IPv4Network) -> None:
    shield = Shield(shielded)
    inside = [any(map(address.subnet_of, shielded)) for address in ADDRESSES if address.subnet_of(asked)]
    assert shield.touches(asked) == any(inside)
    assert shield.holds(asked) == all(inside)


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "10.1.2.3", "192.168.0.0/16", "::1", "fe80::1", "fd00::1", "0.0.0.0", "::"]
)
def test_loopback_and_private_addresses_are_reserved(text: str) -> None:
    assert Shield(RESERVED).holds(networks(text)[0])


@pytest.mark.parametrize("text", ["8.8.8.8", "203.0.113.1", "198.51.100.0/24", "2001:db8::1", "2a00::/16"])
def test_strangers_addresses_are_not(text: str) -> None:
    assert not Shield(RESERVED).touches(networks(text)[0])


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4/33", "::1/129", "2001:db8::1%eth0", "1.2.3.4-::1",
     "9.0.0.0-1.0.0.0", "2026-05-01", "1.2.3.4-", "16909060", "١.2.3.4"],
)  # fmt: skip
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        networks(text)


def test_bits_behind_the_prefix_do_not_matter() -> None:
    assert networks("203.0.113.7/24") == [IPv4Network("203.0.113.0/24")]


@given(st.lists(SMALL, max_size=10))
def test_collapsed_networks_hold_the_same_addresses(many: list[IPv4Network]) -> None:
    few = collapsed(many)
    assert len(few) <= len(set(many))
    for address in ADDRESSES:
        assert any(map(address.subnet_of, few)) == any(map(address.subnet_of, many))
