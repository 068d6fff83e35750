"""Fixture: the packaged model, converted once for all that use this home."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.settings import Settings


@pytest.fixture(scope="session")
def packaged() -> Path:
    """The home whose models hold the packaged one; skips where its wheel is not installed."""
    # Only tests that answer with it pay for importing what an engine needs.
    from workers.engine.models.packaged import NAME, gguf_file, packaged_model

    home = Path(Settings().home).expanduser()
    if gguf_file() is None and not list(home.glob(f"models/{NAME}-*")):
        pytest.skip("the packaged model is not installed: run `ticketmill model install`")
    packaged_model(home)
    return home
