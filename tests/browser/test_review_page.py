"""The review page in a real browser: by keyboard alone, by two at once, and with text that wants to be a script."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, BrowserContext, Page, expect
from sqlalchemy.engine import Engine

from ops.migrate import migrate
from schemas.errors import Refused
from schemas.ledger import open_ledger, reading
from schemas.review import Role
from schemas.tables import reviews, tickets
from schemas.ticket import NewTicket, new_ticket_from
from tests.ground.real_text import Rows
from tests.ground.redis_server import RedisServer, redis_program
from tests.ground.reviewing import person, send
from tests.ground.serving import Serving

_tenants = itertools.count(1)

CHECKS = Path(__file__).with_name("checks.js")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    place = tmp_path_factory.mktemp("serving")
    redis = RedisServer(redis_program(), tmp_path_factory.mktemp("redis"), keeps=False)
    redis.start()
    url = f"sqlite:///{place}/ledger.db"
    migrate(url)
    # No accepted ticket goes on its way while the tests look, and every decision is asked of somebody else too.
    settings = {"TICKETMILL_REVIEW_UNDO": "1h", "TICKETMILL_REVIEW_SECOND_OPINION": "100%"}
    serving = Serving(sys.executable, url, redis.url, place, settings)
    try:
        serving.start()
        yield serving
    finally:
        serving.close()
        redis.close()


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


@pytest.fixture
def office(serving: Serving, browser: Browser) -> Generator[Office]:
    engine = open_ledger(serving.ledger_url)
    office = Office(browser, serving.url, engine, f"tenant-{next(_tenants)}", [])
    yield office
    for context in office.contexts:
        context.close()
    engine.dispose()


def titles(page: Page) -> list[str]:
    return page.locator("#list .title").all_text_contents()


class TestByKeyboard:
    def test_twenty_tickets_are_cleared_without_a_mouse(self, office: Office) -> None:
        ids = office.numbered(20)
        page = office.sit_down("Ana")
        expect(page.locator("#list li")).to_have_count(20)
        page.keyboard.press("j")
        for number in range(1, 21):
            expect(page.locator("#subject")).to_have_text(f"Ticket {number}")
            page.keyboard.press("a" if number % 2 else "r")
            if number % 2 == 0:
                page.keyboard.press("1")
        expect(page.locator("#empty")).to_be_visible()
        assert office.states() == {each: "rejected" if n % 2 else "queued" for n, each in enumerate(ids)}

    def test_keys_that_come_faster_than_the_server_each_have_their_turn(self, office: Office) -> None:
        ids = office.numbered(4)
        page = office.sit_down("Ana")
        expect(page.locator("#list li")).to_have_count(4)
        page.keyboard.type("jar1ar2")
        expect(page.locator("#empty")).to_be_visible()
        assert [office.states()[each] for each in ids] == ["queued", "rejected", "queued", "rejected"]

    def test_undo_skip_edit_note_and_the_way_back(self, office: Office) -> None:
        first, second, _ = office.numbered(3)
        page = office.sit_down("Ana")
        expect(page.locator("#list li")).to_have_count(3)
        page.keyboard.press("j")
        expect(page.locator("#subject")).to_have_text("Ticket 1")
        page.keyboard.press("a")
        expect(page.locator("#said")).to_have_text("accepted; u takes it back")
        page.keyboard.press("u")
        expect(page.locator("#said")).to_have_text("taken back")
        expect(page.locator("#subject")).to_have_text("Ticket 1")
        page.keyboard.press("n")
        expect(page.locator("#note")).to_be_focused()
        page.keyboard.type("call him")
        page.keyboard.press("Enter")
        expect(page.locator("#history")).to_contain_text("Ana: note: call him")
        page.keyboard.press("s")
        expect(page.locator("#subject")).to_have_text("Ticket 2")
        page.keyboard.press("e")
        expect(page.locator("#edit-body")).to_be_focused()
        page.keyboard.press("End")
        page.keyboard.type(" and more")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#subject")).to_have_text("Ticket 3")
        page.keyboard.press("k")
        with reading(office.engine) as connection:
            document = connection.scalars(sa.select(tickets.c.document).where(tickets.c.id == second)).one()
        assert json.loads(document)["body"] == "Body 2 and more"
        assert (office.states()[first], office.states()[second]) == ("in_review", "queued")

    def test_help_reasons_and_filters_open_and_close(self, office: Office) -> None:
        office.send(NewTicket(body="eins", language="de"), NewTicket(body="one", language="en"))
        page = office.sit_down("Ana")
        expect(page.locator("#list li")).to_have_count(2)
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()
        page.keyboard.press("j")
        page.keyboard.press("r")
        expect(page.locator("#why-dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#why-dialog")).to_be_hidden()
        page.keyboard.press("f")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.type("de")
        page.keyboard.press("Enter")
        expect(page.locator("#list li")).to_have_count(1)
        assert titles(page) == ["eins"]

    def test_many_at_once_and_back(self, office: Office) -> None:
        ids = office.numbered(6)
        page = office.sit_down("Ana")
        expect(page.locator("#list li")).to_have_count(6)
        page.get_by_label("All").check()
        page.get_by_label("Select Ticket 3").uncheck()
        page.locator("#bulk-reject").click()
        page.keyboard.press("3")
        expect(page.locator("#list li")).to_have_count(1)
        assert [office.states()[each] for each in ids].count("rejected") == 5
        page.keyboard.press("u")
        expect(page.locator("#list li")).to_have_count(6)

    def test_an_appeal_is_one_key_and_a_second_opinion_is_not_told_the_first(self, office: Office) -> None:
        (rejected,) = office.send(NewTicket(body="REJECT my parcel", external_id="4711"))
        ana = office.sit_down("Ana")
        ana.keyboard.type("2j")
        expect(ana.locator("#text")).to_have_text("REJECT my parcel")
        ana.keyboard.press("a")
        expect(ana.locator("#said")).to_have_text("accepted; u takes it back")
        assert office.states() == {rejected: "queued"}
        ben = office.sit_down("Ben")
        ben.keyboard.type("3j")
        expect(ben.locator("#history")).to_have_text("Hidden, so that your opinion is your own.")
        assert "Ana" not in ben.locator("#desk").inner_text()
        ben.keyboard.type("r1")
        expect(ben.locator("#empty")).to_be_visible()
        assert office.decided() == [(rejected, "accept"), (rejected, "reject")]


class TestTwoAtOnce:
    def test_they_never_decide_the_same_ticket(self, office: Office) -> None:
        ids = office.numbered(24)
        ana, ben = office.sit_down("Ana"), office.sit_down("Ben")
        for page in (ana, ben):
            expect(page.locator("#list li")).to_have_count(24)
        for _ in range(24):
            ana.keyboard.type("ja")
            ben.keyboard.type("jr4")
        for page in (ana, ben):
            expect(page.locator("#empty")).to_be_visible(timeout=30_000)
        decided = [ticket for ticket, _ in office.decided()]
        assert sorted(decided) == sorted(ids)
        assert {step for _, step in office.decided()} == {"accept", "reject"}

    def test_each_sees_what_the_other_has_open(self, office: Office) -> None:
        office.numbered(1)
        ana, ben = office.sit_down("Ana"), office.sit_down("Ben")
        ana.keyboard.press("j")
        expect(ana.locator("#subject")).to_have_text("Ticket 1")
        ben.keyboard.press("j")
        expect(ben.locator("#said")).to_have_text("Ana has it open")
        expect(ben.locator("#list .held")).to_have_text("Ana has it")
        ana.locator("#sign-out").click()
        expect(ana.locator("#key")).to_be_visible()
        ben.keyboard.press("j")
        expect(ben.locator("#subject")).to_have_text("Ticket 1")


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
