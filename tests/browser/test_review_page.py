"""The review page for everybody: hostile text stays text; contrast, names, focus and width are right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from schemas.errors import Refused
from schemas.review import Role
from schemas.ticket import NewTicket, new_ticket_from
from tests.browser.office import Office
from tests.ground.real_text import Rows
from tests.ground.reviewing import person

SCRIPTS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "'-alert(1)-'",
    "</textarea><script>alert(1)</script>",
    "</title></style></script><script>alert(1)</script>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "<a href=javascript:alert(1)>press me</a>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "<base href=//elsewhere.example><style>@import '//elsewhere.example'</style>",
    "<button form=edit formaction=javascript:alert(1)>x</button>",
    "\u202e<script>alert(1)</script>\u2066",
)


OPENED = 70
"""Texts that are opened one by one, markup first; the others are seen in the list."""


class TestHostileText:
    def test_it_is_shown_as_text_wherever_it_stands(self, office: Office, real_tickets: Callable[..., Rows]) -> None:
        edges = [row["text"] for row in real_tickets("edge_strings")]
        texts = [*SCRIPTS, *sorted(edges, key=lambda text: "<" not in text)]
        sent: list[NewTicket] = []
        for text in texts:
            fields = {"subject": text[:900].replace("\n", " "), "metadata": {"field": text[:500]}}
            for more in ({"customer": text[:200], **fields}, fields, {}):
                try:
                    sent.append(new_ticket_from({"body": text, "language": text[:20] if not more else "", **more}))
                except Refused:
                    continue  # no door lets it in like this
                break
        assert len(sent) > 400
        office.send(*sent)
        page = office.sit_down("<b onmouseover=alert(1)>Ana</b>")
        for count in range(100, len(sent), 100):
            expect(page.locator("#list li")).to_have_count(count)
            page.locator("#more").click()
        expect(page.locator("#list li")).to_have_count(len(sent))
        tags = "page => [...document.querySelectorAll('#desk *')].map(e => e.localName)"
        ours = {"a", "article", "b", "button", "dd", "details", "div", "dl", "dt", "footer", "form", "h1", "h2", "h3",
                "header", "input", "kbd", "label", "li", "nav", "ol", "option", "output", "p", "section", "select",
                "span", "summary", "textarea", "time"}  # fmt: skip
        assert set(page.evaluate(tags)) <= ours
        page.reload()
        expect(page.locator("#list li")).to_have_count(100)
        for ticket in sent[:OPENED]:
            page.keyboard.press("j")
            expect(page.locator("#text")).to_have_js_property("textContent", ticket.body)
            if ticket.body in SCRIPTS:
                page.keyboard.press("e")
                expect(page.locator("#edit-body")).to_have_value(ticket.body)
                page.keyboard.press("Escape")
                page.keyboard.press("n")
                expect(page.locator("#note")).to_be_focused()
                page.keyboard.insert_text(ticket.body)
                page.keyboard.press("Enter")
                expect(page.locator("#history")).to_contain_text("note: " + ticket.body)
        assert set(page.evaluate(tags)) <= ours
        assert page.evaluate("violations") == []

    def test_even_a_fault_in_our_script_could_not_make_it_markup(self, office: Office) -> None:
        page = office.sit_down("Ana")
        with pytest.raises(Exception, match="TrustedHTML"):
            page.evaluate("document.getElementById('text').innerHTML = '<img src=x onerror=alert(1)>'")
        assert page.evaluate("violations.length") == 1


class TestForEverybody:
    @pytest.mark.parametrize("colours", ["light", "dark"])
    @pytest.mark.parametrize("width", [1180, 360])
    def test_contrast_names_and_width(self, office: Office, colours: str, width: int) -> None:
        office.send(
            NewTicket(body="word " * 200, subject="Long " * 30, customer="c" * 200, metadata={"order": 7}),
            NewTicket(body="x" * 3000),
        )
        page = office.sit_down("Ana", color_scheme=colours, viewport={"width": width, "height": 720})

        def check() -> None:
            assert page.evaluate("poorContrasts()") == []
            assert page.evaluate("stumblingBlocks()") == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width

        expect(page.locator("#list li")).to_have_count(2)
        check()
        page.locator("#filter-box summary").click()
        check()
        page.keyboard.press("j")
        expect(page.locator("#subject")).to_contain_text("Long")
        page.keyboard.press("x")
        check()
        page.keyboard.press("e")
        check()
        page.keyboard.press("Escape")
        page.keyboard.press("r")
        expect(page.locator("#why-dialog")).to_be_visible()
        assert page.evaluate("stumblingBlocks()") == []
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        assert page.evaluate("stumblingBlocks()") == []

    def test_focus_is_seen_and_goes_down_the_page(self, office: Office) -> None:
        office.numbered(2)
        page = office.sit_down("Ana")
        expect(page.locator("#list li")).to_have_count(2)
        order: list[int] = []
        for _ in range(12):
            page.keyboard.press("Tab")
            at, name, outline = page.evaluate("""[
                [...document.querySelectorAll("*")].indexOf(document.activeElement),
                document.activeElement.outerHTML.slice(0, 80),
                getComputedStyle(document.activeElement).outlineStyle,
            ]""")
            assert outline in ("solid", "auto"), name
            order.append(at)
        assert order == sorted(set(order))
        assert page.locator("#said").get_attribute("aria-live") == "polite"

    def test_on_a_phone_list_and_ticket_take_turns_and_taps_do_everything(self, office: Office) -> None:
        (ticket,) = office.numbered(1)
        page = office.sit_down("Ana", viewport={"width": 390, "height": 780}, has_touch=True)
        page.locator("#list button").tap()
        expect(page.locator("#left")).to_be_hidden()
        page.locator("#back").tap()
        expect(page.locator("#left")).to_be_visible()
        page.locator("#list button").tap()
        page.locator("#accept").tap()
        expect(page.locator("#empty")).to_be_visible()
        assert office.states() == {ticket: "queued"}

    def test_a_session_that_is_over_asks_for_the_key_again(self, office: Office) -> None:
        office.numbered(1)
        page = office.sit_down("Ana")
        page.context.clear_cookies()
        page.keyboard.press("j")
        expect(page.locator("#key")).to_be_visible()

    def test_a_senders_key_is_told_so(self, office: Office) -> None:
        _, key = person(office.engine, "shop", office.tenant, Role.SENDER)
        page = office.sit_down("Ana")
        page.locator("#sign-out").click()
        page.locator("#key").fill(key)
        page.keyboard.press("Enter")
        expect(page.locator("#sign-in-fault")).to_contain_text("may send tickets, not review them")
