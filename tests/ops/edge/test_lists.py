"""Reputation lists as `ticketmill edge sync` fetches and judges them, from files and from a web server of our own."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ops.cli import run
from ops.edge import copies
from ops.edge.copies import Copy
from tests.ops.edge.list_server import ListServer

GOOD = b"203.0.113.0/24\n2001:db8:f::/48\n192.0.2.7\n"

PLAIN = b"""\
# a list
203.0.113.0/25 # first half
203.0.113.128/25
203.0.113.7 ; inside it
2001:db8:f::/48
192.0.2.7\t3
"""
DROP = b"""\
; Spamhaus DROP List 2026/05/01
203.0.113.0/24 ; SBL000001
2001:db8:f::/48 ; SBL000002
192.0.2.7/32 ; SBL000003
"""
DROP_JSON = b"""\
{"cidr":"203.0.113.0/24","sblid":"SBL000001","rir":"arin"}
{"cidr":"2001:db8:f::\\/48","sblid":"SBL000002","rir":"ripencc"}
{"cidr":"192.0.2.7/32","sblid":"SBL000003","rir":"apnic"}
{"type":"metadata","timestamp":1770000000,"size":180,"records":3}
"""
NETSET = b"""\
#
# some_level1
#
# Category        : attacks
#
192.0.2.7
203.0.113.0/24
2001:db8:f::/48
"""
RANGES = b"""\
203.0.113.0 - 203.0.113.255
192.0.2.7-192.0.2.7
::ffff:192.0.2.7
2001:db8:f::-2001:db8:f:ffff:ffff:ffff:ffff:ffff
"""
CSV = b"""\
# exported 2026-05-01
"first_seen_utc","dst_ip","dst_port","note"
"2026-04-01 10:00:00","203.0.113.0/24","443","a, b"
"2026-04-01 10:00:00","192.0.2.7","80",""
"2026-04-01 10:00:00","2001:db8:f::/48","80",""
"""
CSV_NAMED_IN_A_COMMENT = b"""\
# Firstseen,DstIP,DstPort
2026-04-01,203.0.113.0/24,443
2026-04-01,192.0.2.7,443
2026-04-01,2001:db8:f::/48,443
"""
CSV_TWO_COLUMNS = b"192.0.2.1;203.0.113.0/24\n192.0.2.2;192.0.2.7\n192.0.2.3;2001:db8:f::/48\n"


class Edge:
    """The command, with lists of a test's own under one home."""

    def __init__(self, folder: Path, output: pytest.CaptureFixture[str]) -> None:
        self.home = folder / "home"
        self._file = folder / "ticketmill.yaml"
        self._output = output

    def run(self, command: str, *options: str, **edge: Any) -> tuple[int, str, str]:
        """Its exit code and what it wrote to both streams."""
        self._file.write_text(json.dumps({"home": str(self.home), "edge": edge}))
        code = run(["edge", command, *options, "--config", str(self._file)])
        out, err = self._output.readouterr()
        return code, out, err

    def sync(self, *options: str, **edge: Any) -> tuple[int, dict[str, Any]]:
        """`sync --for haproxy --json`: its exit code and its report."""
        code, out, _ = self.run("sync", "--for", "haproxy", "--json", *options, **edge)
        return code, json.loads(out)

    def blocked(self) -> list[str]:
        """What HAProxy would block."""
        return (self.home / "edge" / "blocked.acl").read_text().splitlines()


@pytest.fixture
def edge(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Edge:
    for name in ("TICKETMILL_CONFIG", "TICKETMILL_HOME", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Edge(tmp_path, capsys)


@pytest.fixture
def web() -> Generator[ListServer]:
    with ListServer() as server:
        yield server


@pytest.mark.parametrize(
    ("content", "rules"),
    [
        (PLAIN, {}),
        (PLAIN, {"format": "lines"}),
        (b"\xef\xbb\xbf" + DROP.replace(b"\n", b"\r\n"), {}),
        (DROP_JSON, {}),
        (DROP_JSON, {"format": "jsonl", "column": "cidr"}),
        (NETSET, {}),
        (RANGES, {}),
        (CSV, {}),
        (CSV, {"format": "csv", "column": "dst_ip"}),
        (CSV, {"column": "2"}),
        (CSV_NAMED_IN_A_COMMENT, {"column": "DstIP"}),
        (CSV_TWO_COLUMNS, {"format": "csv", "column": "2"}),
    ],
)
def test_every_format_gives_the_same_networks(
    edge: Edge, tmp_path: Path, content: bytes, rules: dict[str, str]
) -> None:
    source = tmp_path / "list"
    source.write_bytes(content)
    code, report = edge.sync("--apply", lists={"one": {"source": str(source), **rules}})
    assert code == 0, report
    assert edge.blocked() == ["192.0.2.7/32", "203.0.113.0/24", "2001:db8:f::/48"]
    (one,) = report["lists"]
    assert (one["state"], one["networks"], one["unreadable"]) == ("renewed", 3, 0)


def test_without_apply_nothing_is_written(edge: Edge, web: ListServer) -> None:
    web.pages["/a"] = GOOD
    code, report = edge.sync(lists={"one": {"source": f"{web.url}/a"}})
    assert (code, report["applied"], report["blocked"]) == (0, False, {"ipv4": 2, "ipv6": 1})
    assert not edge.home.exists()
    code, out, _ = edge.run("sync", lists={"one": {"source": f"{web.url}/a"}})
    assert code == 0
    assert "Tried only. With --apply these would be blocked: stretches of addresses: 2 of IPv4, 1 of IPv6." in out


def test_lists_are_made_one_without_overlaps(edge: Edge, web: ListServer) -> None:
    web.pages |= {"/a": b"203.0.113.0/25\n192.0.2.0/24\n", "/b": b"203.0.113.128/25\n203.0.113.7\n192.0.2.128/25\n"}
    code, report = edge.sync("--apply", lists={each: {"source": f"{web.url}/{each}"} for each in "ab"})
    assert code == 0
    assert edge.blocked() == ["192.0.2.0/24", "203.0.113.0/24"]
    assert report["blocked"] == {"ipv4": 2, "ipv6": 0}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (404, "answered 404 Not Found"),
        (503, "answered 503 Service Unavailable"),
        ("/elsewhere", "Exceeded maximum allowed redirects"),
        (b"", "has shrunk from 3 networks to 0 (least_share 50%)"),
        (b"# moved\n192.0.2.7\n", "has shrunk from 3 networks to 1 (least_share 50%)"),
        (b"<!doctype html>\n<title>Down for a while</title>\n", "2 of 2 lines hold no address, the first is line 1"),
        (GOOD + b"0.0.0.0/0\n", "would block 0.0.0.0/0, a part of the internet"),
        (GOOD + b"::/0\n", "would block ::/0, a part of the internet"),
        (GOOD + b"\n".join(b"%d.0.0.0/8" % each for each in range(11, 28)), "would block more than 1/16 of all IPv4"),
        (GOOD + b"127.0.0.1\n", "would block 127.0.0.1/32, which is or holds a private, loopback or allowed address"),
        (GOOD + b"::1\n", "would block ::1/128, which"),
        (GOOD + b"192.168.3.0/24\n", "would block 192.168.3.0/24, which"),
        (GOOD + b"172.0.0.0/8\n", "would block 172.0.0.0/8, which"),
        (GOOD + b"fd00::/8\n", "would block fd00::/8, a part of the internet"),
        (GOOD + b"fd12:3456::/32\n", "would block fd12:3456::/32, which"),
        (GOOD + b"::ffff:10.0.0.1\n", "would block 10.0.0.1/32, which"),
        (GOOD + b"198.51.100.0/24\n", "would block 198.51.100.0/24, which"),
        (GOOD + b"#" * 5_000, "is larger than 4,096 bytes (largest)"),
        (b"".join(b"203.0.113.%d\n" % each for each in range(40)), "has more than 30 networks (most_networks)"),
        (b"2001:db8::1-2001:db8:ffff::\n", "has more than 30 networks (most_networks)"),
    ],
)
def test_a_list_that_fails_or_looks_wrong_keeps_its_last_good_copy(
    edge: Edge, web: ListServer, content: bytes | int | str, why: str
) -> None:
    rules = {"source": f"{web.url}/a", "largest": "4096", "most_networks": 30}
    settings = {"lists": {"one": rules}, "allow": ["198.51.100.66"]}
    web.pages["/a"] = GOOD
    assert edge.sync("--apply", **settings)[0] == 0
    before = edge.blocked()
    web.pages |= {"/a": content, "/elsewhere": "/a"}
    code, report = edge.sync("--apply", **settings)
    (one,) = report["lists"]
    assert (code, one["state"], one["networks"]) == (1, "kept", 3)
    assert one["why"].startswith(why)
    assert edge.blocked() == before
    web.pages["/a"] = GOOD + b"192.0.2.8\n"
    code, report = edge.sync("--apply", **settings)
    assert (code, report["lists"][0]["state"], report["lists"][0]["added"]) == (0, "renewed", 1)


def test_one_bad_list_does_not_hold_up_the_others(edge: Edge, web: ListServer) -> None:
    web.pages["/good"] = GOOD
    lists = {"bad": {"source": f"{web.url}/bad"}, "good": {"source": f"{web.url}/good"}}
    code, report = edge.sync("--apply", lists=lists)
    assert (code, [each["state"] for each in report["lists"]]) == (1, ["none", "renewed"])
    assert len(edge.blocked()) == 3
    code, out, _ = edge.run("sync", "--for", "haproxy", lists=lists)
    assert code == 1
    assert f"bad: {web.url}/bad answered 404 Not Found" in out


def test_what_is_reserved_or_allowed_is_left_out_where_one_says_so(edge: Edge, web: ListServer) -> None:
    web.pages["/a"] = GOOD + b"0.0.0.0/8\n10.0.0.0/8\n224.0.0.0/3\n127.0.0.0/8\n198.51.100.0/24\n"
    rules = {"source": f"{web.url}/a", "reserved": "skip"}
    code, report = edge.sync("--apply", lists={"one": rules}, allow=["198.51.100.66"])
    assert (code, report["lists"][0]["skipped"]) == (0, 5)
    assert len(edge.blocked()) == 3
    web.pages["/a"] = GOOD + b"0.0.0.0/0\n"
    assert edge.sync("--apply", lists={"one": rules})[0] == 1


def test_an_unreadable_line_among_many_is_counted_and_passed_over(edge: Edge, web: ListServer) -> None:
    web.pages["/a"] = b"".join(b"203.0.113.%d\n" % each for each in range(0, 80, 2)) + b"203.0.113.300\n"
    code, report = edge.sync(lists={"one": {"source": f"{web.url}/a"}})
    assert (code, report["lists"][0]["networks"], report["lists"][0]["unreadable"]) == (0, 40, 1)


def test_a_copy_that_is_still_current_is_not_fetched_again(edge: Edge, web: ListServer) -> None:
    web.pages["/a"] = GOOD
    lists = {"one": {"source": f"{web.url}/a"}}
    _, first = edge.sync("--apply", lists=lists)
    code, second = edge.sync("--apply", lists=lists)
    assert (code, second["lists"][0]["state"]) == (0, "unchanged")
    assert second["lists"][0]["expires_at"] > first["lists"][0]["expires_at"]
    assert "If-None-Match" in web.asked[1][1]
    # Read in another way it is another list.
    edge.sync("--apply", lists={"one": {"source": f"{web.url}/a", "format": "lines"}})
    assert "If-None-Match" not in web.asked[2][1]


def test_a_copy_that_has_expired_is_used_no_more(edge: Edge, web: ListServer) -> None:
    source = f"{web.url}/a"
    lists = {"one": {"source": source, "expires": "1d"}}
    web.pages["/a"] = GOOD
    edge.sync("--apply", lists=lists)
    kept = copies.read(edge.home / "edge", "one")
    assert kept is not None
    for age, state, blocked in ((timedelta(hours=23), "kept", 3), (timedelta(hours=25), "none", 0)):
        web.pages["/a"] = 500
        copies.write(edge.home / "edge", "one", msgspec.structs.replace(kept, fetched_at=datetime.now(UTC) - age))
        code, report = edge.sync("--apply", lists=lists)
        assert (code, report["lists"][0]["state"], len(edge.blocked())) == (1, state, blocked)
    _, out, _ = edge.run("show", lists=lists)
    assert "(expired)" in out
    # Nothing is left to compare with: what the source has by now is believed.
    web.pages["/a"] = b"192.0.2.7\n"
    assert edge.sync("--apply", lists=lists)[0] == 0


def test_a_copy_that_cannot_be_understood_counts_as_none(edge: Edge, web: ListServer) -> None:
    (edge.home / "edge").mkdir(parents=True)
    (edge.home / "edge" / "one.json").write_text('{"source": ')
    web.pages["/a"] = GOOD
    assert edge.sync("--apply", lists={"one": {"source": f"{web.url}/a"}})[0] == 0
    assert isinstance(copies.read(edge.home / "edge", "one"), Copy)


def test_passwords_and_keys_in_a_url_are_not_told(edge: Edge, web: ListServer) -> None:
    source = web.url.replace("//", "//ada:hunter2@") + "/a?key=hunter3"
    lists = {"one": {"source": source}}
    for page in (GOOD, 404):
        web.pages["/a"] = page
        for command in ("sync", "show"):
            for options in ([], ["--json"]):
                _, out, err = edge.run(command, *options, lists=lists)
                assert "hunter" not in out + err
                assert f"{web.url}/a" in out or not options
    assert web.asked[0][0] == "/a?key=hunter3"
    assert "Authorization" in web.asked[0][1]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lists": {"one": {"source": "drop.txt"}}}, "edge.lists.one.source: must be an absolute path, or a URL"),
        ({"lists": {"one": {"source": "ftp://x/y"}}}, "edge.lists.one.source: must be an absolute path, or a URL"),
        ({"lists": {"one": {"source": "http://[::1/y"}}}, "edge.lists.one.source: must be an absolute path, or a URL"),
        ({"lists": {"one": {"source": "https:///y"}}}, "edge.lists.one.source: must be an absolute path, or a URL"),
        ({"lists": {"one": {"source": "/x", "format": "x"}}}, "edge.lists.one.format: must be one of auto, csv, jsonl"),
        ({"lists": {"one": {"source": "/x", "expires": 0}}}, "edge.lists.one.expires: must be more than 0"),
        ({"lists": {"../one": {"source": "/x"}}}, "edge.lists: has a name that must begin with a letter or digit"),
        ({"ports": ["http"]}, "edge.ports: 'http' is no port; write them like 80, 443"),
        ({"allow": ["everyone"]}, "edge.allow: 'everyone' is no address, network or range"),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_line(edge: Edge, settings: dict[str, Any], says: str) -> None:
    code, out, err = edge.run("sync", "--json", **settings)
    assert (code, out) == (2, "")
    assert err.startswith(f"ticketmill: {says}")


def test_a_file_that_is_not_there_is_told(edge: Edge) -> None:
    code, report = edge.sync(lists={"one": {"source": "/nowhere/list"}})
    assert (code, report["lists"][0]["why"]) == (1, "cannot be read: No such file or directory")


def test_a_server_that_is_not_there_is_told(edge: Edge) -> None:
    with ListServer() as gone:
        source = f"{gone.url}/a"
    code, report = edge.sync(lists={"one": {"source": source}})
    assert code == 1
    assert "refused" in report["lists"][0]["why"]


def test_without_lists_there_is_nothing_to_do(edge: Edge) -> None:
    code, out, _ = edge.run("sync")
    assert code == 0
    assert "No reputation lists are named under edge.lists." in out


def test_what_is_kept_is_whole_and_for_our_eyes(edge: Edge, web: ListServer) -> None:
    web.pages["/a"] = GOOD
    edge.sync("--apply", lists={"one": {"source": f"{web.url}/a"}})
    kept = edge.home / "edge"
    assert sorted(path.name for path in kept.iterdir()) == ["blocked.acl", "one.json"]
    assert (kept.stat().st_mode & 0o777, (kept / "one.json").stat().st_mode & 0o777) == (0o700, 0o600)
