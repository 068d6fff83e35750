"""The same at HAProxy: its configuration checked by itself, and run against real floods of whole connections."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ops.edge.haproxy import blocked_file, render
from ops.edge.networks import merged, networks
from schemas.errors import SettingRefused
from schemas.settings import load_settings
from tests.ground.process import Process
from tests.ground.server import binary
from tests.ground.waiting import wait_until
from tests.ops.edge.conftest import PORT, Ground
from tests.ops.edge.namespaces import SBIN

pytestmark = pytest.mark.xdist_group("edge")

DOOR = 8080
RATE = 50
"""A tenth and less of what one client here manages, so that it is over the rate however slow the machine is."""

LISTED = {"drop": {"source": "https://lists.example/drop.txt"}}


@pytest.fixture
def haproxy() -> Path:
    return binary(lambda: shutil.which("haproxy", path=SBIN), "haproxy", "haproxy")


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., Path]:
    """Writes the configuration for these settings, with these networks on a list; its file."""

    def write(*blocked: str, **settings: Any) -> Path:
        everything = load_settings({"edge": settings}, {})
        acl, file = tmp_path / 'blocked "here".acl', tmp_path / "edge.cfg"
        acl.write_text(blocked_file(merged([([one for text in blocked for one in networks(text)], 60.0)]), now=0.0))
        file.write_text(render(everything.edge, everything.http, acl))
        return file

    return write


def served(clients: Process) -> int:
    assert clients.wait(60) == 0, clients.output()
    return json.loads(clients.output())["served"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"allow": ["192.0.2.0/24", "2001:db8::/32", "10.0.0.1-10.0.0.9"], "lists": LISTED, "ban_time": "100ms"},
        {"haproxy": {"bind": ["127.0.0.1:1", "[::1]:2 v6only"], "server": "192.0.2.1:80 check"}},
    ],
    ids=["defaults", "allowed-and-listed", "places"],
)
def test_haproxy_takes_the_configuration(
    haproxy: Path, configured: Callable[..., Path], settings: dict[str, Any]
) -> None:
    file = configured("203.0.113.0/24", "2001:db8:f::1-2001:db8:f::9", **settings)
    checked = subprocess.run([haproxy, "-c", "-f", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"haproxy": {"bind": [":80\n\tno log"]}}, "edge.haproxy.bind: must be one line"),
        ({"haproxy": {"bind": []}}, "edge.haproxy.bind: must name at least one place"),
        ({"haproxy": {"server": "api:80\ndaemon"}}, "edge.haproxy.server: must be one line"),
        ({"allow": ["all"]}, "edge.allow: 'all' is no address"),
    ],
)
def test_a_setting_that_is_no_line_of_configuration_is_refused(
    configured: Callable[..., Path], settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingRefused) as refused:
        configured(**settings)
    assert str(refused.value).startswith(says)


def test_two_flooding_sources_are_turned_away_and_a_third_is_served(
    ground: Ground, haproxy: Path, configured: Callable[..., Path]
) -> None:
    places = {"bind": [f":::{DOOR} v4v6"], "server": f"127.0.0.1:{PORT}"}
    file = configured("203.0.113.10", lists=LISTED, syn_rate=RATE, ban_time="2s", haproxy=places)
    door = ground.server.start(haproxy, "-db", "-f", file)
    wait_until(lambda: ground.reaches(ground.neighbour_v4, port=DOOR, patience_s=10), why=door.output)
    floods = [ground.connections(each, 1_500, port=DOOR) for each in (ground.attacker_v4, ground.attacker_v6)]
    customers = ground.connections(ground.neighbour_v4, 40, port=DOOR, pause_s=0.05)
    assert served(customers) == 40
    for flood in floods:
        assert RATE <= served(flood) <= 4 * RATE
    wait_until(lambda: ground.reaches(ground.attacker_v4, port=DOOR, patience_s=10), 30)
    assert not ground.reaches(ground.busy_v4, port=DOOR), "it is on a list"


def test_allowed_sources_are_served_whatever_they_do(
    ground: Ground, haproxy: Path, configured: Callable[..., Path]
) -> None:
    places = {"bind": [f":::{DOOR} v4v6"], "server": f"127.0.0.1:{PORT}"}
    file = configured("198.51.100.0/24", lists=LISTED, allow=[ground.attacker_v4], syn_rate=RATE, haproxy=places)
    door = ground.server.start(haproxy, "-db", "-f", file)
    wait_until(lambda: ground.reaches(ground.attacker_v6, port=DOOR, patience_s=10), why=door.output)
    assert served(ground.connections(ground.attacker_v4, 300, port=DOOR)) == 300
    assert not ground.reaches(ground.neighbour_v4, port=DOOR)
