"""`ticketmill edge` end to end: rules rendered and loaded, lists fetched over HTTP and put in force, in a namespace."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ops.edge import haproxy, nftables
from ops.edge.sync import haproxy_file
from schemas.settings import load_settings
from tests.ground.process import ROOT
from tests.ground.waiting import wait_until
from tests.ops.edge.conftest import Ground
from tests.ops.edge.namespaces import Namespace, require

pytestmark = pytest.mark.xdist_group("edge")


@pytest.mark.parametrize(("name", "place"), [("ticketmill-edge.nft", "nftables"), ("ticketmill-edge.cfg", "haproxy")])
def test_the_files_that_are_shipped_are_what_the_defaults_give(name: str, place: str) -> None:
    settings = load_settings({}, {})
    rendered = {
        "nftables": nftables.render(settings.edge, settings.http.port),
        "haproxy": haproxy.render(settings.edge, settings.http, haproxy_file(settings)),
    }
    assert (ROOT / "ops" / "edge" / name).read_text() == rendered[place]


@pytest.mark.parametrize(
    "edge",
    [
        {},
        {"ports": [], "allow": [], "ban_time": "100ms"},
        {"ports": "1, 65535, 8040", "syn_rate": 1, "burst": 1, "network_syn_rate": 1, "ban_time": "365d"},
        {"syn_rate": 1_000_000, "burst": 1_000_000, "network_syn_rate": 1_000_000},
        {"allow": ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.1-192.0.2.77", "::1", "2001:db8::/32", "203.0.113.7/24"]},
    ],
)
def test_nft_takes_what_the_settings_give(tmp_path: Path, edge: dict[str, Any]) -> None:
    require()
    rules = nftables.render(load_settings({"edge": edge}, {}).edge, 8040)
    namespace = Namespace("alone", tmp_path)
    try:
        for _ in range(2):
            namespace.run("nft", "-c", "-f", "-", stdin=rules)
            namespace.run("nft", "-f", "-", stdin=rules)
    finally:
        namespace.close()


def test_lists_are_fetched_blocked_replaced_and_kept(ground: Ground, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    web = ground.server.start(
        sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", pages, "0"
    )
    url = wait_until(lambda: web.output().partition("(")[2].partition(")")[0], why=web.output)
    lists = {"drop": {"source": f"{url}drop.txt"}, "more": {"source": f"{url}more.json"}}
    settings = tmp_path / "ticketmill.yaml"
    settings.write_text(json.dumps({"home": str(tmp_path / "home"), "edge": {"lists": lists}}))

    def sync(*options: str) -> tuple[int, dict[str, Any]]:
        done = ground.server.ticketmill("edge", "sync", "--json", "--config", settings, *options)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    (pages / "drop.txt").write_text(f"; a list\n{ground.busy_v4} ; SBL1\n2001:db8:b::/64 ; SBL2\n")
    (pages / "more.json").write_text('{"cidr":"198.51.100.66/32","sblid":"SBL3","rir":"arin"}\n{"type":"metadata"}\n')

    refused = ground.server.ticketmill("edge", "sync", "--apply", "--config", settings)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Load the rules first: ticketmill edge render --for nftables" in refused.stderr

    rules = ground.server.ticketmill("edge", "render", "--for", "nftables", "--config", settings)
    ground.server.run("nft", "-f", "-", stdin=rules.stdout)
    assert sync()[0] == 0
    assert ground.reaches(ground.busy_v4, patience_s=10), "only tried so far"

    assert sync("--apply")[1]["blocked"] == {"ipv4": 2, "ipv6": 1}
    for source in (ground.busy_v4, ground.busy_v6, ground.attacker_v4):
        assert not ground.reaches(source)
    assert ground.reaches(ground.neighbour_v4, patience_s=10)

    (pages / "drop.txt").write_text("; a list\n192.0.2.1\n2001:db8:b::/64 ; SBL2\n")
    (pages / "more.json").unlink()
    code, report = sync("--apply")
    assert (code, [each["state"] for each in report["lists"]]) == (1, ["renewed", "kept"])
    assert ground.reaches(ground.busy_v4, patience_s=10), "no longer on the list"
    assert not ground.reaches(ground.busy_v6)
    assert not ground.reaches(ground.attacker_v4)

    shown = ground.server.ticketmill("edge", "show", "--config", settings)
    assert shown.returncode == 0, shown.stderr
    assert "Nobody is banned now." in shown.stdout
    assert "Blocked by lists: stretches of addresses: 2 of IPv4, 1 of IPv6." in shown.stdout
    assert f"{url}drop.txt" in shown.stdout
