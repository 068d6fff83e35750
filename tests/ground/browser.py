"""Debian's Chromium, driven by Playwright; no browser is ever downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.ground.server import binary


def chromium_program() -> Path:
    """The browser; a test that needs it is skipped where it is missing, and fails where CI is set."""
    return binary(lambda: shutil.which("chromium") or shutil.which("chromium-browser"), "Chromium", "chromium")


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    """One browser for the whole run; each test opens contexts of its own, which share nothing."""
    program = chromium_program()
    with sync_playwright() as playwright:
        # Tests run as root too, where Chromium's sandbox cannot.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
