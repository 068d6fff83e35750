"""Settings from a file and the environment: what wins, what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from schemas.errors import SettingRefused
from schemas.job import Job
from schemas.model import ModelSettings
from schemas.settings import ENV_RESERVED, Settings, load_settings

HOME = {"HOME": "/home/ada"}


def names(section: type[msgspec.Struct] = Settings, above: str = "") -> dict[str, str]:
    """Every setting's variable in the environment, by its name in the file."""
    found: dict[str, str] = {}
    for field in msgspec.structs.fields(section):
        name = f"{above}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            found |= names(field.type, f"{name}.")
        elif name not in ("models", "jobs", "edge.lists", "retry", "fairness.weights", "limits.tenants", "limits.jobs"):
            found[name] = "TICKETMILL_" + name.replace(".", "_").upper()
    return found


def at(settings: Settings, name: str) -> Any:
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def nested(name: str, value: object) -> dict[str, Any]:
    for part in reversed(name.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def test_nothing_set_is_the_embedded_default_under_home() -> None:
    settings = load_settings({}, HOME)
    assert settings.ledger.url == "sqlite:////home/ada/.ticketmill/ledger.db"
    assert settings.broker.url == "redis+socket:///home/ada/.ticketmill/broker.sock"


@pytest.mark.parametrize("name", sorted(names()))
def test_every_setting_can_come_from_the_file_and_from_the_environment(name: str) -> None:
    default = at(load_settings({}, HOME), name)
    value = "/elsewhere" if name == "home" else "1" if default is None else str(default)
    from_file = at(load_settings(nested(name, value), HOME), name)
    from_environment = at(load_settings({}, {**HOME, names()[name]: value}), name)
    assert from_file == from_environment == (value if name == "home" else 1 if default is None else default)


def test_the_environment_wins_over_the_file_and_leaves_its_neighbours() -> None:
    file = {"http": {"host": "0.0.0.0", "port": 1}}
    http = load_settings(file, {"TICKETMILL_HTTP_PORT": "2"}).http
    assert (http.host, http.port) == ("0.0.0.0", 2)
    assert file == {"http": {"host": "0.0.0.0", "port": 1}}


@pytest.mark.parametrize(
    ("allocator", "field"),
    [
        ({"max_split_size": "19MB"}, "allocator.max_split_size"),
        ({"max_split_size": "64MB", "expandable_segments": True}, "allocator.expandable_segments"),
        ({"garbage_collection": "100%"}, "allocator.garbage_collection"),
    ],
)
def test_what_torchs_allocator_would_not_take_is_refused(allocator: dict[str, Any], field: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        load_settings({"allocator": allocator}, HOME)
    assert refused.value.field == field


def test_quantities_have_units() -> None:
    batch = {"memory_share": "90%", "p95": "750ms", "cool_down": 5}
    settings = load_settings({"worker": {"batch": batch}, "http": {"largest_body": "2MiB"}}, HOME)
    assert (settings.worker.batch.memory_share, settings.worker.batch.p95) == (0.9, 0.75)
    assert (settings.worker.batch.cool_down, settings.http.largest_body) == (5.0, 2 * 2**20)


@given(st.text(min_size=1), st.sampled_from(["", "http.", "worker.batch.", "models.default."]))
def test_an_unknown_key_is_refused_by_its_name(key: str, section: str) -> None:
    known = {name.removeprefix(section).split(".")[0] for name in names() if name.startswith(section)}
    assume(key not in known | {"models", "jobs", "retry", *ModelSettings.__struct_fields__} and "." not in key)
    with pytest.raises(SettingRefused, match=r"is not a setting of Ticketmill; see docs/settings.md") as refused:
        load_settings(nested(f"{section}{key}", 1), HOME)
    assert str(refused.value).isprintable()
    if key.isprintable() and len(key) <= 64 and "`" not in key:
        assert refused.value.field == f"{section}{key}"


@pytest.mark.parametrize("variable", ["TICKETMILL_BROKER", "TICKETMILL_HTTP_PROT", "TICKETMILL_"])
def test_an_unknown_variable_is_refused_by_its_name(variable: str) -> None:
    with pytest.raises(SettingRefused, match=f"^{variable}: is no setting of Ticketmill"):
        load_settings({}, {variable: "x"})


def test_variables_that_are_no_settings_are_left_alone() -> None:
    load_settings({}, dict.fromkeys([*ENV_RESERVED, "PATH", "CELERY_BROKER_URL"], "x"))


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (
            {"worker": {"batch": {"policy": "x"}}},
            "worker.batch.policy: must be one of aimd, fixed, gradient, mended, printed",
        ),
        ({"worker": {"batch": {"start": 0}}}, "worker.batch.start: must be 1 or more"),
        ({"worker": 5}, "worker: must be an object of names and values, not a whole number"),
        ({"http": {"port": 99999}}, "http.port: must be 65535 or less"),
        ({"http": {"port": "http"}}, "http.port: must be a whole number, not text"),
        ({"worker": {"lease": "3 weeks"}}, "worker.lease: 'weeks' is no unit of time; use ms, s, m, h or d"),
        ({"worker": {"lease": 0}}, "worker.lease: must be more than 0"),
        ({"worker": {"batch": {"memory_share": 90}}}, "worker.batch.memory_share: 90 is more than the whole"),
        ({"jobs": {"ok": {"system": "a"}, "x": {"system": 1}}}, "jobs.x.system: must be text, not a whole number"),
        ({"jobs": {"x": {}}}, "jobs.x.system: is missing"),
        ({"jobs": {"x": {"system": "a", "model": "big"}}}, "jobs.x.model: names 'big', which is not under models"),
        ({"models": {"x": {"dtype": "f"}}}, "models.x.dtype: must be one of auto, bfloat16, float16, float32"),
        ({"home": "relative"}, "home: must be an absolute path or begin with ~/"),
        ({1: 2}, "settings: has a name that must be text"),
    ],
)
def test_a_refusal_names_the_setting_and_says_what_would_be_right(file: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        load_settings(file, HOME)
    assert str(refused.value).startswith(says)


def test_a_section_left_empty_means_its_default() -> None:
    assert load_settings({"http": None, "worker": {"batch": {"cap": None}}}, HOME) == load_settings({}, HOME)


def test_a_second_model_does_not_take_the_first_one_away() -> None:
    settings = load_settings({"models": {"big": {"path": "/models/big"}}}, HOME)
    assert set(settings.models) == {"default", "big"}


def test_a_job_of_the_users_own_stands_beside_the_shipped_ones_or_in_their_place() -> None:
    settings = load_settings({"jobs": {"reply": {"system": "mine"}, "route": {"system": "other"}}}, HOME)
    assert settings.job("reply") == Job(system="mine")
    assert settings.job("route") == Job(system="other")
    assert settings.job("triage") is not None
    assert settings.job("no such job") is None
    assert set(settings.all_jobs()) == {"reply", "triage", "summarise", "route"}
