"""The compose file and the images name nothing that is not there. No engine builds or runs them here."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from schemas.settings import load_settings
from tests.ground.process import ROOT

DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_built_from_an_image_that_is_there(name: str) -> None:
    build = SERVICES[name]["build"]
    assert (ROOT / "docker" / build["context"] / build["dockerfile"]).resolve() == ROOT / "docker/Dockerfile"
    assert build["target"] in re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_given_settings_that_are_there(name: str) -> None:
    settings = load_settings({}, SERVICES[name]["environment"])
    assert settings.broker.url == "redis://redis:6379/0"
    assert settings.ledger.url.startswith("postgresql://ticketmill:")


@pytest.mark.parametrize("name", list(SERVICES))
def test_what_a_service_waits_for_says_when_it_is_ready(name: str) -> None:
    assert all("healthcheck" in SERVICES[needed] for needed in SERVICES[name].get("depends_on", ()))
    assert all(place.split(":")[0] in COMPOSE["volumes"] for place in SERVICES[name].get("volumes", ()))


def test_ports_are_open_to_this_host_alone() -> None:
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", ()))


def test_the_producers_image_has_no_model_stack() -> None:
    stages = dict(re.findall(r"^FROM \S+ AS (\S+)$(.*?)(?=^FROM|\Z)", DOCKERFILE, re.MULTILINE | re.DOTALL))
    assert "torch" not in stages["producer"].split("# ")[0]
    assert "torch" in stages["worker"]


def test_the_build_sees_what_the_wheel_needs_and_no_more() -> None:
    seen = {line[1:] for line in (ROOT / "docker/Dockerfile.dockerignore").read_text().split() if line[0] == "!"}
    assert seen == {
        "schemas", "producer", "workers", "ops", "alembic", "pyproject.toml", "constraints.txt", "README.md", "LICENSE"
    }  # fmt: skip


def test_a_worker_has_longer_to_end_than_it_takes() -> None:
    assert int(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) > load_settings({}, {}).worker.grace
