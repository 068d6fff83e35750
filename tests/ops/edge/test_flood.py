"""The kernel's rules against real floods, between network namespaces of the test's own.

What got through is counted behind the edge, so that no clock decides: under the default rate of 1,000 a second and
burst of 500, a flood that was cut within a second has let at most 1,500 SYNs through.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ops.edge.networks import merged, networks
from ops.edge.nftables import render, replace_blocked
from schemas.edge import EdgeSettings
from schemas.settings import load_settings
from tests.ground.process import Process
from tests.ground.waiting import wait_until
from tests.ops.edge.conftest import PORT, Ground

pytestmark = pytest.mark.xdist_group("edge")

WITHIN_A_SECOND = 1_500
FAMILIES = ("v4", "v6")


def load(ground: Ground, **settings: Any) -> None:
    edge: EdgeSettings = load_settings({"edge": settings}, {}).edge
    ground.server.run("nft", "-c", "-f", "-", stdin=render(edge, PORT))
    ground.server.run("nft", "-f", "-", stdin=render(edge, PORT))


def block(ground: Ground, *texts: str, until: float = 3600.0) -> None:
    lists = [([one for text in texts for one in networks(text)], until)]
    ground.server.run("nft", "-f", "-", stdin=replace_blocked([*merged(lists)], now=0.0))


def sent(*floods: Process) -> None:
    for flood in floods:
        assert flood.wait(60) == 0, flood.output()


def shown(ground: Ground) -> dict[str, Any]:
    told = ground.server.ticketmill("edge", "show", "--json")
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)["kernel"]


def outcome(connections: Process) -> dict[str, int]:
    assert connections.wait(60) == 0, connections.output()
    return json.loads(connections.output())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_flood_is_cut_within_a_second_and_nobody_else_loses_anything(ground: Ground, family: str) -> None:
    attacker, neighbour, busy = (getattr(ground, f"{who}_{family}") for who in ("attacker", "neighbour", "busy"))
    load(ground)
    honest = ground.syns(busy, count=1_800, rate=900)
    flood = ground.syns(attacker, count=12_000, rate=6_000)
    customers = ground.connections(neighbour, count=100, pause_s=0.015)
    sent(flood, honest)
    assert outcome(customers) == {"served": 100, "refused": 0}
    assert ground.arrived(busy) == 1_800
    assert ground.arrived(neighbour) == 100
    assert 500 <= ground.arrived(attacker) <= WITHIN_A_SECOND


@pytest.mark.parametrize("family", FAMILIES)
def test_who_floods_is_banned_and_seen_to_be(ground: Ground, family: str) -> None:
    attacker = getattr(ground, f"attacker_{family}")
    load(ground)
    sent(ground.syns(attacker, count=3_000, rate=5_000))
    facts = shown(ground)
    assert [ban["source"] for ban in facts["bans"]] == [attacker]
    assert facts["dropped"]["over_rate"] + facts["dropped"]["banned"] == 3_000 - ground.arrived(attacker)
    assert not ground.reaches(attacker)
    assert ground.reaches(getattr(ground, f"neighbour_{family}"), patience_s=10)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_ban_ends_once_the_flood_has(ground: Ground, family: str) -> None:
    attacker = getattr(ground, f"attacker_{family}")
    load(ground, ban_time="1s")
    sent(ground.syns(attacker, count=3_000, rate=5_000))
    assert ground.arrived(attacker) <= WITHIN_A_SECOND
    wait_until(lambda: ground.reaches(attacker), 30)


def test_a_banned_source_that_floods_on_stays_banned(ground: Ground) -> None:
    load(ground, ban_time="1s")
    sent(ground.syns(ground.attacker_v4, count=15_000, rate=5_000))
    # Were the ban let go each second, each time another burst of 500 and more would pass.
    assert ground.arrived(ground.attacker_v4) <= WITHIN_A_SECOND


def test_a_new_address_for_every_packet_does_not_help(ground: Ground) -> None:
    load(ground, network_syn_rate=1_000)
    flood = ground.syns(ground.made_up_v6, count=9_000, rate=6_000)
    customers = ground.connections(ground.neighbour_v6, count=50, pause_s=0.02)
    sent(flood)
    assert outcome(customers) == {"served": 50, "refused": 0}
    assert 500 <= ground.arrived(ground.made_up_v6) <= WITHIN_A_SECOND
    assert [ban["source"] for ban in shown(ground)["bans"]] == [ground.made_up_v6]


@pytest.mark.parametrize("family", FAMILIES)
def test_allowed_sources_are_let_through_whatever_they_do_and_wherever_they_are_listed(
    ground: Ground, family: str
) -> None:
    attacker = getattr(ground, f"attacker_{family}")
    load(ground, allow=[attacker])
    block(ground, "198.51.100.0/24", "2001:db8:a::/64")
    sent(ground.syns(attacker, count=4_000, rate=5_000))
    assert ground.arrived(attacker) == 4_000
    assert not ground.reaches(getattr(ground, f"neighbour_{family}"))


@pytest.mark.parametrize("family", FAMILIES)
def test_listed_sources_are_blocked_until_their_list_expires(ground: Ground, family: str) -> None:
    attacker = getattr(ground, f"attacker_{family}")
    load(ground)
    block(ground, "198.51.100.60-198.51.100.66", "2001:db8:a::66")
    assert not ground.reaches(attacker)
    assert ground.reaches(getattr(ground, f"neighbour_{family}"), patience_s=10)
    block(ground, "198.51.100.60-198.51.100.66", "2001:db8:a::66", until=1.0)
    wait_until(lambda: ground.reaches(attacker), 30)


def test_loading_again_keeps_bans_lists_and_what_others_have_set_up(ground: Ground) -> None:
    admin = ground.server.run("nft", "-s", "list", "table", "inet", "admin")
    load(ground)
    block(ground, f"{ground.busy_v4}/32")
    sent(ground.syns(ground.attacker_v4, count=3_000, rate=5_000))
    load(ground, syn_rate=50, ports=[9000], allow=["192.0.2.1", "2001:db8:c::/48"])
    load(ground, ban_time="1h")
    assert not ground.reaches(ground.attacker_v4)
    assert not ground.reaches(ground.busy_v4)
    assert ground.reaches(ground.neighbour_v4, patience_s=10)
    tables = ground.server.run("nft", "list", "tables").splitlines()
    assert tables == ["table inet admin", "table inet ticketmill_edge"]
    ground.forget()
    assert ground.server.run("nft", "-s", "list", "table", "inet", "admin") == admin


def test_ports_that_are_not_guarded_are_left_alone(ground: Ground) -> None:
    load(ground)
    sent(ground.syns(ground.attacker_v4, count=3_000, rate=5_000))
    assert not ground.reaches(ground.attacker_v4)
    ground.server.start("python3", "-m", "http.server", "--bind", "198.51.100.1", "9000")
    wait_until(lambda: ground.reaches(ground.attacker_v4, port=9000), 20)
