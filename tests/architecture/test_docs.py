"""The documentation names nothing that is not there, and says what the code says."""

from __future__ import annotations

import re

import pytest

from ops.settings_page import settings_page
from schemas.states import State
from tests.architecture.checkout import texts
from tests.ground.process import ROOT

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")


def test_every_link_between_pages_leads_somewhere() -> None:
    broken = [
        f"{path}: {target}"
        for path, text in texts()
        if path.suffix == ".md"
        for target in LINK.findall(text)
        if "://" not in target and not (ROOT / path.parent / target).exists()
    ]
    assert broken == []


def test_every_page_that_the_code_sends_people_to_is_there() -> None:
    named = {page for _, text in texts() for page in PAGE.findall(text)}
    assert {page for page in named if not (ROOT / page).is_file()} == set()


def test_the_page_of_settings_is_made_from_the_settings() -> None:
    made = (ROOT / "docs/settings.md").read_text()
    assert made == settings_page(), "run: python -m ops.settings_page > docs/settings.md"


@pytest.mark.parametrize("state", list(State))
def test_the_page_of_states_has_each_of_them(state: State) -> None:
    assert f"`{state}`" in (ROOT / "docs/states.md").read_text()
