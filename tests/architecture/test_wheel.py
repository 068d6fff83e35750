"""The wheel holds the four packages whole, the migrations, and nothing else; and it works without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.checkout import PACKAGES, tracked
from tests.ground.process import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = place.glob("*.whl")
    return zipfile.ZipFile(built)


def test_it_holds_exactly_the_packages_and_the_migrations(wheel: zipfile.ZipFile) -> None:
    sources = {path.relative_to(ROOT).as_posix() for path in tracked()}
    packages = {name for name in sources if name.split("/")[0] in PACKAGES}
    migrations = {name.replace("alembic/", "ops/migrations/", 1) for name in sources if name.startswith("alembic/")}
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == packages | migrations


def test_it_hides_no_library(wheel: zipfile.ZipFile) -> None:
    top = {name.split("/")[0] for name in wheel.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)


def test_what_it_holds_can_migrate_a_ledger(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    wheel.extractall(installed)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    code = "import sys; from ops import migrate; migrate.migrate(sys.argv[1]); migrate.require_current(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, url],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
