"""The files of the checkout, as the tests of this folder look at them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ground.process import ROOT

PACKAGES = ("schemas", "producer", "workers", "ops")


def tracked() -> list[Path]:
    """Every file that belongs to the project, or is about to."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: which files belong to the project is not known")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    """Those that are text, with their content."""
    for path in tracked():
        content = path.read_bytes()
        if b"\x00" not in content:
            yield path.relative_to(ROOT), content.decode()
