"""``ticketmill breakers``: what is left alone, and a hand on the switch for whoever holds an operator's key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from producer.adapters.key_ring import SqlKeyRing
from producer.api_keys import make_key
from schemas.review import Role
from tests.ops.conftest import Desk, Said

Command = Callable[..., Said]


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "upstream.yaml"
    file.write_text("models: {default: {base_url: 'http://127.0.0.1:9/v1', name: far}}\n")
    return str(file)


def key(desk: Desk, role: Role) -> str:
    return make_key(SqlKeyRing(desk.engine), "acme", "ada", datetime.now(UTC), role)[1]


def test_it_is_opened_and_closed_by_hand_and_everyone_sees_why(ticketmill: Command, desk: Desk, config: str) -> None:
    env = {"LEDGER_URL": desk.url, "CONFIG": config}
    (found,) = ticketmill("breakers", "--json", **env).facts["breakers"]
    assert (found["name"], found["mode"]) == ("upstream:default", "closed")
    operator = env | {"KEY": key(desk, Role.OPERATOR)}
    said = ticketmill("breakers", "trip", "upstream:default", "--reason", "maintenance", "--lasts", "5m", **operator)
    assert (said.code, said.out) == (0, "upstream:default: closed -> open\n")
    (found,) = ticketmill("breakers", "--json", **env).facts["breakers"]
    assert found["mode"] == "open"
    assert found["reason"] == "opened by ada: maintenance"
    lasts = datetime.fromisoformat(found["until"]) - datetime.fromisoformat(found["since"])
    assert lasts.total_seconds() == 300
    assert "maintenance" in ticketmill("breakers", **env).out
    assert ticketmill("breakers", "reset", "upstream:default", **operator).out == "upstream:default: open -> closed\n"


@pytest.mark.parametrize("role", [Role.SENDER, Role.REVIEWER, None])
def test_nobody_without_an_operators_key_turns_one(
    ticketmill: Command, desk: Desk, config: str, role: Role | None
) -> None:
    env = {"LEDGER_URL": desk.url, "CONFIG": config}
    env |= {"KEY": key(desk, role)} if role else {}
    said = ticketmill("breakers", "trip", "upstream:default", **env)
    assert said.code == 2
    assert said.err.startswith("ticketmill: TICKETMILL_KEY: must hold an operator's key")


@pytest.mark.parametrize(
    ("arguments", "words"), [(("trip", "x"), "no breaker 'x'"), (("reset", "x"), "no breaker 'x'")]
)
def test_one_that_is_not_there(
    ticketmill: Command, desk: Desk, config: str, arguments: tuple[str, ...], words: str
) -> None:
    env = {"LEDGER_URL": desk.url, "CONFIG": config, "KEY": key(desk, Role.OPERATOR)}
    said = ticketmill("breakers", *arguments, **env)
    assert said.code == 1
    assert words in said.err
