from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.policy.text.folding import READ_CHARS, fold
from producer.policy.text.masking import LINK, MAIL, PHONE, PRICE, TOKEN, mask
from producer.policy.text.reading import read
from tests.ground.real_text import Rows

ANY_TEXT = st.text(st.characters(), max_size=400)  # lone surrogates and all
MARKS = re.compile("[\ue000-\ue00f]")


@given(ANY_TEXT)
def test_any_text_can_be_read_and_its_plain_form_hides_nothing(text: str) -> None:
    folded = fold(text).text
    assert not re.search(r"[\u200b-\u200f\u202a-\u202e\ufeff]", folded)
    assert folded == folded.lower().strip()
    assert read(text).chars == len(folded)


@given(st.text(st.characters(codec="ascii"), max_size=200))
def test_plain_text_loses_nothing_but_capitals_and_blanks(text: str) -> None:
    letters = [letter for letter in text.lower() if letter.isalnum()]
    assert [letter for letter in fold(text).text if letter.isalnum()] == letters


@given(st.text("abc ", min_size=1, max_size=50), st.integers(READ_CHARS + 1, 20 * READ_CHARS))
def test_a_long_text_costs_no_more_than_a_bounded_one(text: str, chars: int) -> None:
    folded = fold((text * chars)[:chars])
    assert folded.cut
    assert len(folded.text) <= READ_CHARS + 10


@pytest.mark.parametrize(
    ("disguised", "plain"),
    [
        ("Ｂｕｙ　ｎｏｗ", "buy now"),
        ("b\u200bu\u200cy n\u2060ow", "buy now"),
        ("buy nоw", "buy now"),  # a Cyrillic о
        ("𝐛𝐮𝐲 𝐧𝐨𝐰", "buy now"),
        ("b u y n o w", "buynow"),
        ("ʙᴜʏ ɴᴏᴡ", "buy now"),
        ("b̷̢̛u̶̡͝y̵̨͠ now", "buy now"),
    ],
)
def test_what_looks_the_same_reads_the_same(disguised: str, plain: str) -> None:
    assert fold(disguised).text == plain


def test_honest_words_of_other_alphabets_stay_as_they_are() -> None:
    assert fold("Здравствуйте, где мой заказ").mixed == 0
    assert fold("Здравствуйте, где мой заказ").text == "здравствуйте, где мой заказ"


@pytest.mark.parametrize(
    ("said", "mark"),
    [
        ("see https://shop.example/a?b=1", LINK),
        ("write to anna@mail.example", MAIL),
        ("call +49 30 1234567", PHONE),
        ("it was $12.50", PRICE),
        ("多收了我50元", PRICE),
        ("order ab-20261130-99", TOKEN),
    ],
)
def test_contact_details_are_masked(said: str, mark: str) -> None:
    masked = mask(said)
    assert masked.text.count(mark) == 1
    assert len(masked.details) == 1


@given(ANY_TEXT)
def test_masking_takes_details_out_and_nothing_else(text: str) -> None:
    folded = fold(text).text
    masked = mask(folded)
    assert len(masked.details) == len(MARKS.findall(masked.text))
    assert not re.search("[1-9]", masked.text) or not masked.details
    kept = MARKS.sub("", masked.text)
    left = folded
    for detail in masked.details:
        left = left.replace(detail, "", 1)
    assert re.sub("[0-9]", "0", left) == re.sub("[0-9]", "0", kept)


def test_real_tickets_seldom_need_undoing(real_tickets: Callable[..., Rows]) -> None:
    for name in ("tickets_en", "tickets_zh"):
        folded = [fold(row["text"]) for row in real_tickets(name)]
        undone = sum(bool(each.hidden or each.mixed or each.stacked or each.styled) for each in folded)
        assert undone <= 0.002 * len(folded)
