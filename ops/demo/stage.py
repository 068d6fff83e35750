"""The demonstration's own place: a home, settings and a port that touch nothing of the user's but the model's cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import msgspec
import yaml

from ops.sockets import free_port
from producer.adapters.settings_file import read_mapping, settings_file
from schemas.settings import ENV_PREFIX, Settings, load_settings
from schemas.ticket import NewTicket, decode_new_ticket

MOST_ANSWER_TOKENS = 48
"""Answers are cut here, so that a small machine gets through all of them in a few minutes."""

BATCH = {"p95": "5s"}
"""A processor takes a second for a step that a device does in milliseconds: with the usual limit of one second the
batch would shrink to a single ticket, on a machine where nothing is wrong."""

_NOT_OURS = ("home", "broker", "ledger", "http")
"""Settings that the demonstration does not take from the user: it must never run on their broker or ledger."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Where the demonstration runs. ``config`` is a settings file that other commands can be pointed at."""

    settings: Settings
    config: Path
    environment: dict[str, str]


def set_stage(named: Path | None, home: Path | None) -> Stage:
    """Makes the demonstration's home (a temporary one if none is given) and writes its settings there.

    Raises:
        SettingRefused: the user's own settings cannot be used.
    """
    mapping, environment = _users(named)
    settings = load_settings(mapping, environment)
    place = Path(mkdtemp(prefix="ticketmill-demo-")) if home is None else home.absolute()
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    _share_models(Path(settings.home), place)
    mapping |= {
        "home": str(place),
        "http": {"port": free_port()},
        "jobs": {name: _short(msgspec.to_builtins(job)) for name, job in settings.all_jobs().items()},
    }
    mapping["worker"] = {"batch": BATCH, **mapping.get("worker", {})}
    config = place / "ticketmill.yaml"
    config.write_text(yaml.safe_dump(mapping, allow_unicode=True, sort_keys=False), encoding="utf-8")
    environment["TICKETMILL_CONFIG"] = str(config)
    return Stage(settings=load_settings(mapping, environment), config=config, environment=environment)


def demo_tickets() -> list[NewTicket]:
    """The tickets that were written for the demonstration."""
    lines = files("ops.demo").joinpath("tickets.jsonl").read_text(encoding="utf-8").splitlines()
    return [decode_new_ticket(line) for line in lines]


def _users(named: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    file = settings_file(named)
    mapping = {} if file is None else read_mapping(file)
    mine = tuple(f"{ENV_PREFIX}{name.upper()}" for name in _NOT_OURS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return {name: value for name, value in mapping.items() if name not in _NOT_OURS}, environment


def _short(job: Mapping[str, Any]) -> dict[str, Any]:
    return {**job, "max_new_tokens": min(job["max_new_tokens"], MOST_ANSWER_TOKENS)}


def _share_models(users_home: Path, place: Path) -> None:
    """The packaged model is converted once for all homes: it takes 20 seconds and 270 MB."""
    models = place / "models"
    if not models.exists() and users_home != place:
        (users_home / "models").mkdir(parents=True, exist_ok=True)
        models.symlink_to(users_home / "models")
