"""The allocator's settings, as torch has them once an engine is open."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ground.process import ROOT

OPEN = """
import sys
from schemas.settings import load_settings
from workers.engine import open_engine
from workers.adapters.clock import utc_now
model = {"path": sys.argv[1], "device": "cpu", "dtype": "float32", "threads": 1}
file = {"home": sys.argv[1], "models": {"default": model}, "allocator": {"max_split_size": "64MB"}}
settings = load_settings(file, {})
assert "torch" not in sys.modules
open_engine(settings, utc_now).close()
import torch
print(torch._C._accelerator_getAllocatorSettings())
"""


@pytest.mark.parametrize(("environment", "found"), [({}, "max_split_size_mb:64"), ({"PYTORCH_ALLOC_CONF": ""}, "")])
def test_torch_has_what_the_settings_say_unless_the_environment_says_otherwise(
    model_of_kind: Callable[[str], Path], environment: dict[str, str], found: str
) -> None:
    small = model_of_kind("llama")
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(small)],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == found
