"""The review page as reviewers use it: by keyboard alone, and two at once."""

from __future__ import annotations

import json

import sqlalchemy as sa
from playwright.sync_api import Page, expect

from schemas.ledger import reading
from schemas.tables import tickets
from schemas.ticket import NewTicket
from tests.browser.office import Office


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
        expect(page.locator("#reject")).to_have_text("Reject 5… r")
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
