"""What may stand in the project's files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.checkout import texts, tracked
from tests.ground.process import ROOT
from tests.ground.real_text import Rows

MOST_LINES = 380
"""A file past this holds a second owner."""

MACHINES = re.compile(r"(?<![\w.~}])/(?:work|opt|root)/\w")
HOSTS = re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|(?:deb|security)\.debian\.org|proxy\.golang\.org")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
THIS = Path(__file__).relative_to(ROOT)


def test_no_file_is_too_long_for_one_owner() -> None:
    lengths = {str(path): text.count("\n") for path, text in texts() if path.suffix == ".py"}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


@pytest.mark.parametrize(("what", "pattern"), [("machine", MACHINES), ("registry", HOSTS), ("unfinished", UNFINISHED)])
def test_the_project_speaks_of_no_machine_and_no_registry_and_leaves_nothing_unfinished(
    what: str, pattern: re.Pattern[str]
) -> None:
    found = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in texts()
        if path != THIS
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == [], what


def test_alembic_is_no_package() -> None:
    # With an __init__.py our folder hides the library of the same name wherever the checkout is on the path.
    assert [path for path in tracked() if path.name == "__init__.py" and "alembic" in path.parts] == []


def test_no_real_text_is_kept_in_the_project(real_tickets: Callable[..., Rows]) -> None:
    words = {row["text"] for name in ("tickets_en", "tickets_zh", "spam", "creative") for row in real_tickets(name)}
    long = [text for text in words if len(text) > 60]
    assert long
    kept = [path for path, content in texts() if any(text in content for text in long)]
    assert kept == []
