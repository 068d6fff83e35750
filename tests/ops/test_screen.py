"""What a customer wrote can neither steer the terminal nor run in a spreadsheet of whoever reads it."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cli.screen import json_line, print_json, print_table, safe_line, safe_text
from schemas.cells import inert_cell

STEERING = {"Cc", "Cf", "Cs"}
BIDI = "\u202e\u2066\u061c\u200f"


@given(st.text())
def test_no_control_reaches_the_terminal(text: str) -> None:
    for one in safe_text(text):
        assert one in "\n\t\u200c\u200d" or unicodedata.category(one) not in STEERING


@given(st.text(), st.integers(min_value=1, max_value=40))
def test_a_line_is_one_line_of_that_length(text: str, longest: int) -> None:
    line = safe_line(text, longest=longest)
    assert len(line) <= longest
    assert line.splitlines() in ([], [line])


def test_words_stay_and_what_was_taken_out_is_seen() -> None:
    assert safe_text("退款 ok\x1b[31m red\u202e!") == "退款 ok\ufffd[31m red\ufffd!"
    assert safe_text("a\r\nb\u2028c\td") == "a\nb\nc\td"


@given(st.text() | st.text(alphabet=BIDI + "\x7f\x9b\x1b"))
def test_json_says_the_same_and_steers_nothing(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    line = json_line({"text": text})
    assert json.loads(line) == {"text": text}
    assert not set(line) & set(BIDI + "\x7f\x9b\x1b")


def test_markup_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Rows", ("name",), [("[bold red]x[/bold red]",), ("[/nope]",), ("\x1b]0;owned\x07",)])
    out = capsys.readouterr().out
    assert "[bold red]x[/bold red]" in out
    assert "[/nope]" in out
    assert "\x1b" not in out


def test_json_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "退款", "n": 1})
    out = capsys.readouterr().out
    assert json.loads(out) == {"text": "退款", "n": 1}
    assert "退款" in out


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1+1", "|calc", "%0A"])
def test_no_cell_is_a_formula(cell: str) -> None:
    assert inert_cell(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["", "hello", "1", "退款", "a=b", "'quoted"])
def test_other_cells_stay(cell: str) -> None:
    assert inert_cell(cell) == cell
