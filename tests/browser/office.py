"""A review page, tickets on it, and people who sit down at it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, BrowserContext, Page, expect
from sqlalchemy.engine import Engine

from schemas.ledger import reading
from schemas.tables import reviews, tickets
from schemas.ticket import NewTicket
from tests.ground.reviewing import person, send

CHECKS = Path(__file__).with_name("checks.js")


@dataclass
class Office:
    """A tenant of its own with tickets in review, and people who sit down at the page."""

    browser: Browser
    url: str
    engine: Engine
    tenant: str
    contexts: list[BrowserContext]

    def send(self, *sent: NewTicket) -> list[str]:
        return send(self.engine, *sent, tenant=self.tenant)

    def numbered(self, count: int) -> list[str]:
        return self.send(*(NewTicket(body=f"Body {n}", subject=f"Ticket {n}") for n in range(1, count + 1)))

    def sit_down(self, label: str, **options: object) -> Page:
        """Signs in by keyboard; whatever goes wrong on the page from then on fails the test."""
        _, key = person(self.engine, label, self.tenant)
        context = self.browser.new_context(**options)
        self.contexts.append(context)
        context.add_init_script(path=CHECKS)
        page = context.new_page()
        page.on("pageerror", lambda error: pytest.fail(f"the page raised {error}"))
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
        page.goto(f"{self.url}/review")
        expect(page.locator("#key")).to_be_focused()
        page.keyboard.type(key)
        page.keyboard.press("Enter")
        expect(page.locator("#desk")).to_be_visible()
        return page

    def states(self) -> dict[str, str]:
        with reading(self.engine) as connection:
            query = sa.select(tickets.c.id, tickets.c.state).where(tickets.c.tenant == self.tenant)
            return {row.id: row.state for row in connection.execute(query)}

    def decided(self) -> list[tuple[str, str]]:
        with reading(self.engine) as connection:
            query = sa.select(reviews.c.ticket_id, reviews.c.step).where(reviews.c.tenant == self.tenant)
            return [tuple(row) for row in connection.execute(query.order_by(reviews.c.id))]
