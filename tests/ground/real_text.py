"""Real tickets, from the data that ``TICKETMILL_DATA`` names. None of their text is kept in the project."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rows = list[dict[str, Any]]
"""Each row: ``id, source, licence, lang, text, labels``."""


@pytest.fixture(scope="session")
def real_tickets() -> Callable[..., Rows]:
    """``real_tickets("tickets_en", most=200)``: the first rows of a file, or every row.

    Skips the test where ``TICKETMILL_DATA`` is unset; fails it where that is set and the file is not there.
    """

    def load(name: str, most: int | None = None) -> Rows:
        with (real_data() / f"{name}.jsonl").open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in itertools.islice(lines, most)]
        assert rows, f"{name}.jsonl is empty"
        return rows

    return load


def real_data() -> Path:
    """The folder of real data; see ``real_tickets`` for when there is none."""
    place = os.environ.get("TICKETMILL_DATA", "")
    if not place:
        pytest.skip("TICKETMILL_DATA is not set: point it at the folder of real tickets to run this test")
    folder = Path(place)
    if not (folder / "tickets_en.jsonl").is_file():
        pytest.fail(f"TICKETMILL_DATA is {place}, which holds no tickets_en.jsonl", pytrace=False)
    return folder
