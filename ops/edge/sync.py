"""Reputation lists brought up to date: fetch, judge, fall back on the last good copy, make one of all, apply it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from ops.edge import copies, kernel, nftables, sources
from ops.edge.copies import Copy
from ops.edge.formats import read
from ops.edge.haproxy import blocked_file
from ops.edge.networks import RESERVED, Shield, Until, allowed, merged, networks
from ops.edge.verdicts import Unusable, ends_at, judge
from schemas.edge import ReputationList
from schemas.settings import Settings

State = Literal["renewed", "unchanged", "kept", "none"]
"""A new copy is used; the source says the last one is current; it failed and the last good copy is used; it failed and
there is none that has not expired."""


class ListReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one list.

    Attributes:
        why: what is wrong with its source, empty if nothing is.
        networks: in the copy that is used; ``added`` and ``gone`` against the copy before.
        skipped: networks left out as reserved or allowed; ``unreadable``: lines that held none.
    """

    name: str
    source: str
    state: State
    why: str = ""
    networks: int = 0
    added: int = 0
    gone: int = 0
    skipped: int = 0
    unreadable: int = 0
    fetched_at: datetime | None = None
    expires_at: datetime | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be put in force.

    Attributes:
        copies: the copies to use from now on, by their list's name.
        blocked: all of them as one, without overlaps.
    """

    lists: list[ListReport]
    copies: dict[str, Copy]
    blocked: list[Until]


def folder(settings: Settings) -> Path:
    """Where copies are kept."""
    return Path(settings.home).expanduser() / "edge"


def haproxy_file(settings: Settings) -> Path:
    """Where HAProxy finds the blocked networks."""
    return folder(settings) / "blocked.acl"


def plan(settings: Settings, now: datetime) -> Plan:
    """Fetches and judges every list; changes nothing.

    Raises:
        SettingRefused: a source or an allowed network is none.
        Unavailable: the copies cannot be read.
    """
    shield = Shield([*RESERVED, *allowed(settings.edge.allow)])
    for name, rules in settings.edge.lists.items():
        sources.check(f"edge.lists.{name}.source", rules.source)
    reports: list[ListReport] = []
    used: dict[str, Copy] = {}
    for name, rules in settings.edge.lists.items():
        last = copies.read(folder(settings), name)
        last = last if last is not None and last.of(rules) and ends_at(last.fetched_at, rules) > now else None
        report, copy = _renewed(name, rules, last, shield, now)
        reports.append(report)
        if copy is not None:
            used[name] = copy
    lists = [
        ([one for text in copy.networks for one in networks(text)], ends_at(copy.fetched_at, rules).timestamp())
        for name, rules in settings.edge.lists.items()
        if (copy := used.get(name)) is not None
    ]
    return Plan(lists=reports, copies=used, blocked=[*merged(lists)])


def apply_to_kernel(settings: Settings, planned: Plan, now: datetime) -> None:
    """Keeps the copies and puts them in the kernel's sets, in one step.

    Raises:
        Unavailable: the copies cannot be written, or the kernel's table is not there or not ours to change.
    """
    kernel.require_loaded()
    _keep(settings, planned)
    kernel.replace(nftables.replace_blocked(planned.blocked, now.timestamp()))


def apply_to_haproxy(settings: Settings, planned: Plan, now: datetime) -> None:
    """Keeps the copies and writes the file that HAProxy reads when it is reloaded.

    Raises:
        Unavailable: they cannot be written.
    """
    _keep(settings, planned)
    copies.replace(haproxy_file(settings), blocked_file(planned.blocked, now.timestamp()).encode(), mode=0o644)


def _keep(settings: Settings, planned: Plan) -> None:
    for name, copy in planned.copies.items():
        copies.write(folder(settings), name, copy)


def _renewed(
    name: str, rules: ReputationList, last: Copy | None, shield: Shield, now: datetime
) -> tuple[ListReport, Copy | None]:
    known = {} if last is None else {"etag": last.etag, "modified": last.modified}
    fetched = sources.fetch(rules.source, rules.largest, **known)
    if isinstance(fetched, sources.Unchanged) and last is not None:
        copy = msgspec.structs.replace(last, fetched_at=now)
        return _report(name, rules, "unchanged", copy, last), copy
    if not isinstance(fetched, sources.Fetched):
        why = fetched.why if isinstance(fetched, sources.Failed) else "says that we have a copy, and there is none"
        return _fallen_back(name, rules, last, why), last
    reading = read(fetched.content, rules.format, rules.column, rules.most_networks)
    verdict = judge(reading, rules, shield, None if last is None else len(last.networks))
    if isinstance(verdict, Unusable):
        return _fallen_back(name, rules, last, verdict.why), last
    copy = Copy(
        source=rules.source,
        format=rules.format,
        column=rules.column,
        fetched_at=now,
        networks=[str(each) for each in verdict.networks],
        etag=fetched.etag,
        modified=fetched.modified,
    )
    report = _report(name, rules, "renewed", copy, last)
    return msgspec.structs.replace(report, skipped=verdict.skipped, unreadable=verdict.unreadable), copy


def _fallen_back(name: str, rules: ReputationList, last: Copy | None, why: str) -> ListReport:
    if last is None:
        return ListReport(name=name, source=sources.shown(rules.source), state="none", why=why)
    return msgspec.structs.replace(_report(name, rules, "kept", last, last), why=why)


def _report(name: str, rules: ReputationList, state: State, copy: Copy, last: Copy | None) -> ListReport:
    now_in, then_in = set(copy.networks), set(() if last is None else last.networks)
    return ListReport(
        name=name,
        source=sources.shown(rules.source),
        state=state,
        networks=len(now_in),
        added=len(now_in - then_in),
        gone=len(then_in - now_in),
        fetched_at=copy.fetched_at,
        expires_at=ends_at(copy.fetched_at, rules),
    )
