"""Files of tickets: read as they come, broken rows named by their line, safe to read twice."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from producer.adapters.backfills import SqlBackfills
from producer.adapters.ledger import SqlLedger, new_ids
from producer.admission import OpenGate
from producer.backfill.columns import Columns, pairs
from producer.backfill.rows import rows_of
from producer.backfill.run import Summary, run_backfill
from producer.intake import Intake
from producer.ports import Receipt
from schemas.errors import Refused
from schemas.ledger import reading
from schemas.tables import backfills, tickets
from schemas.ticket import Ticket
from tests.ground.ledgers import TestLedger

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Backfill:
    """Reads files into a ledger."""

    def __init__(self, ledger: TestLedger) -> None:
        self.engine = ledger.engine
        self.intake = Intake(SqlLedger(ledger.engine), OpenGate(), {"reply", "triage"}, new_ids)
        self.refused: dict[int, str] = {}

    def run(
        self,
        content: bytes | str | io.BufferedIOBase,
        name: str = "tickets.csv",
        mapped: list[str] | None = None,
        constants: dict[str, str] | None = None,
        encoding: str = "utf-8",
        delimiter: str = "",
    ) -> Summary:
        raw = content.encode() if isinstance(content, str) else content
        file = io.BufferedReader(io.BytesIO(raw) if isinstance(raw, bytes) else raw)  # type: ignore[arg-type]  a raw stream
        columns = Columns(pairs("map", mapped or []), constants or {})
        self.refused = {}
        self.told: list[int] = []
        summary = run_backfill(
            rows_of(name, file, columns, encoding=encoding, delimiter=delimiter),
            lambda incoming: self.intake.take_in(incoming, NOW),
            tenant="acme",
            chunk=100,
            progress=lambda so_far: self.told.append(so_far.read),
            refused=self.refused.__setitem__,
        )
        assert not file.closed
        return summary

    def tickets(self) -> list[Ticket]:
        with reading(self.engine) as connection:
            rows = connection.scalars(sa.select(tickets.c.document).order_by(tickets.c.id)).all()
        return [msgspec.json.decode(row, type=Ticket) for row in rows]

    def states(self) -> set[str]:
        with reading(self.engine) as connection:
            return set(connection.scalars(sa.select(tickets.c.state)))


@pytest.fixture
def backfill(sqlite_ledger: TestLedger) -> Backfill:
    return Backfill(sqlite_ledger)


class TestCsv:
    def test_columns_that_bear_the_names_of_fields(self, backfill: Backfill) -> None:
        summary = backfill.run('External ID,Body,subject,other\n7,"Where\nis, it?",Parcel,x\n8,Lost,,y\n')
        assert (summary.read, summary.new, summary.refused) == (2, 2, 0)
        first, second = backfill.tickets()
        assert (first.external_id, first.body, first.subject) == ("7", "Where\nis, it?", "Parcel")
        assert (first.source, first.priority, first.tenant) == ("backfill", "backfill", "acme")
        assert (second.external_id, second.subject) == ("8", "")
        assert backfill.states() == {"received"}

    def test_columns_that_are_mapped_and_constants(self, backfill: Backfill) -> None:
        backfill.run(
            "ID,Message,Order No,source\n7,Lost,A1,somewhere odd\n",
            mapped=["body=Message", "external_id=ID", "metadata.order=Order No"],
            constants={"job": "triage", "priority": "low"},
        )
        (ticket,) = backfill.tickets()
        assert (ticket.body, ticket.external_id, ticket.job, ticket.priority) == ("Lost", "7", "triage", "low")
        assert (ticket.metadata, ticket.source) == ({"order": "A1"}, "backfill")
        assert backfill.states() == {"queued"}

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_the_delimiter_is_found(self, backfill: Backfill, delimiter: str) -> None:
        backfill.run(
            delimiter.join(["external_id", "body"])
            + "\n"
            + delimiter.join(["1", "Lost, I fear"]).replace("Lost, I fear", '"Lost, I fear"')
            + "\n"
        )
        assert backfill.tickets()[0].body == "Lost, I fear"

    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    def test_line_endings(self, backfill: Backfill, ending: str) -> None:
        assert backfill.run(ending.join(["body", "Lost", "", "Broken"])).new == 2

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
    def test_encodings(self, backfill: Backfill, encoding: str) -> None:
        named = "utf-8" if encoding == "utf-8-sig" else encoding
        backfill.run("正文,body\nx,我的包裹没有到\n".encode(encoding), encoding=named)
        assert backfill.tickets()[0].body == "我的包裹没有到"

    def test_broken_rows_are_named_and_the_rest_goes_on(self, backfill: Backfill) -> None:
        lines = [
            b"external_id,body,priority",
            b"1,good,low",
            b"2,too,many,cells",
            b"3,few",
            b'4,"a"b,low',
            b"5,  ,low",
            b"6,good,soon",
            b"7,\xff\xfe,low",
            b"8,a\x00b,low",
            b"9,good,",
            b'10,"two',
            b'lines",low',
            b"11,good,urgent,",
            b'12,"never ends,low',
        ]
        summary = backfill.run(b"\n".join(lines))
        assert {ticket.external_id for ticket in backfill.tickets()} == {"1", "9", "10"}
        assert set(backfill.refused) == {3, 4, 5, 6, 7, 8, 9, 13, 14}
        assert backfill.refused[3] == "line: has 4 cells, and the first line names 3"
        assert backfill.refused[6].startswith("body: ")
        assert backfill.refused[7].startswith("priority: must be one of urgent")
        assert backfill.refused[8].startswith("encoding: holds bytes that are not utf-8")
        assert backfill.refused[9].startswith("body: holds a NUL")
        assert (summary.read, summary.new, summary.refused) == (12, 3, 9)

    def test_a_cell_without_end_does_not_fill_the_memory(self, backfill: Backfill) -> None:
        content = b'body\nfine\n"' + b"x" * 30_000_000
        tracemalloc.start()
        backfill.run(content)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [ticket.body for ticket in backfill.tickets()] == ["fine"]
        assert backfill.refused[3].startswith("line: is broken: over 2000000 characters")
        assert peak < 40_000_000

    @pytest.mark.parametrize(
        ("content", "options", "says"),
        [
            (b"", {}, "file: has no first line"),
            (b"\n\n", {}, "file: has no first line"),
            (b"a,b\n1,2\n", {}, "map: no column is the body; say which with body=COLUMN, of a, b"),
            (b"a,b\n1,2\n", {"mapped": ["body=c"]}, "map: body=c: there is no such column; there are a, b"),
            (b"body,body\n1,2\n", {}, "columns: two are called 'body'"),
            (b"body\nx\n", {"encoding": "klingon"}, "encoding: 'klingon' is none that is known"),
            (b"body\nx\n", {"encoding": "base64"}, "encoding: 'base64' is none that is known"),
            ("正文,body\nx,y\n".encode("gb18030"), {}, "encoding: line 1 is not utf-8"),
            ("body\nx\n".encode("utf-16"), {}, "encoding: the file is UTF-16"),
            (b"body\nx\n", {"delimiter": "::"}, "delimiter: must be one character"),
            (b'"body\nx\n', {}, "file: has a first line that is no CSV"),
        ],
    )
    def test_a_file_that_cannot_be_understood(
        self, backfill: Backfill, content: bytes, options: dict[str, Any], says: str
    ) -> None:
        with pytest.raises(Refused, match=r".") as error:
            backfill.run(content, **options)
        assert str(error.value).startswith(says)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize("given", ["body", "colour=Message", "metadata.=x", "id=ID"])
    def test_a_mapping_that_is_none(self, given: str) -> None:
        with pytest.raises(Refused, match=r"^map: "):
            pairs("map", [given])


class TestJsonl:
    def test_tickets_as_they_are(self, backfill: Backfill) -> None:
        line = {"body": "Lost", "external_id": "7", "metadata": {"order": 1}, "labels": {"x": [1]}}
        backfill.run(json.dumps(line), "tickets.jsonl")
        (ticket,) = backfill.tickets()
        assert (ticket.body, ticket.external_id, ticket.metadata) == ("Lost", "7", {"order": 1})

    def test_mapped_with_numbers_for_ids(self, backfill: Backfill) -> None:
        backfill.run('{"id": 7, "text": "Lost", "who": 3}', "x.ndjson", ["external_id=id", "body=text", "customer=who"])
        assert (backfill.tickets()[0].external_id, backfill.tickets()[0].customer) == ("7", "3")

    def test_known_by_its_first_character(self, backfill: Backfill) -> None:
        assert backfill.run(b'\xef\xbb\xbf{"body": "Lost"}\n\n{"body": "Broken"}\n', "export").new == 2

    def test_broken_lines_are_named_and_the_rest_goes_on(self, backfill: Backfill) -> None:
        lines = [
            b'{"body": "good"}',
            b"{",
            b"[]",
            b"7",
            b'{"body": 7}',
            b'{"body": "\xff"}',
            b'{"body": "\\ud800"}',
            b'{"body": "' + b"x" * 3_000_000 + b'"}',
            b"[" * 100_000,
            b'{"body": "good", "job": "none"}',
            b'{"body": "good too"}',
        ]
        summary = backfill.run(b"\n".join(lines), "x.jsonl")
        assert [ticket.body for ticket in backfill.tickets()] == ["good", "good too"]
        assert set(backfill.refused) == set(range(2, 11))
        assert backfill.refused[8] == "line: is over 2000000 bytes"
        assert backfill.refused[10].startswith("job: there is no job")
        assert summary.read == 11


class TestTwice:
    def test_a_second_run_adds_nothing(self, backfill: Backfill) -> None:
        content = "body\n" + "".join(f"Ticket {number}\n" for number in range(250)) + "Ticket 1\n"
        first, second = backfill.run(content), backfill.run(content)
        assert (first.new, first.known) == (251, 0)
        assert (second.new, second.known) == (0, 251)

    def test_a_run_that_was_broken_off_is_completed(self, backfill: Backfill) -> None:
        lines = ["body\n", *(f"Ticket {number}\n" for number in range(250))]
        backfill.run("".join(lines[:120]))
        assert (lambda summary: (summary.new, summary.known))(backfill.run("".join(lines))) == (131, 119)

    def test_external_ids_are_kept_apart_by_revision(self, backfill: Backfill) -> None:
        summary = backfill.run("external_id,revision,body\n1,1,a\n1,2,b\n1,1,c\n")
        assert (summary.new, summary.known) == (2, 1)


def test_real_tickets_come_in_whole(backfill: Backfill, real_tickets: Callable[..., list[dict[str, Any]]]) -> None:
    sent = real_tickets("tickets_zh", 400) + real_tickets("tickets_en", 400)
    table = io.StringIO()
    writer = csv.DictWriter(table, ["id", "lang", "text"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(sent)
    mapped = ["body=text", "external_id=id", "language=lang"]
    summary = backfill.run(table.getvalue(), mapped=mapped, constants={"job": "triage"})
    assert (summary.new, backfill.refused) == (800, {})
    kept = {ticket.external_id: (ticket.body, ticket.language) for ticket in backfill.tickets()}
    assert kept == {row["id"]: (row["text"], row["lang"]) for row in sent}
    as_lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in sent)
    assert backfill.run(as_lines, "x.jsonl", mapped, {"job": "triage"}).known == 800


def test_hostile_strings_come_in_whole_or_are_named(
    backfill: Backfill, real_tickets: Callable[..., list[dict[str, Any]]]
) -> None:
    sent = real_tickets("edge_strings")
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerows([["external_id", "body"], *([str(at), row["text"]] for at, row in enumerate(sent))])
    summary = backfill.run(table.getvalue().encode("utf-8", "surrogatepass"))
    kept = {int(ticket.external_id): ticket.body for ticket in backfill.tickets()}
    assert all(sent[at]["text"] == body for at, body in kept.items())
    assert len(kept) + summary.refused == len(sent)
    assert len(kept) > 400


def test_a_large_file_is_never_whole_in_memory(backfill: Backfill, tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("w") as file:
        file.write("body\n")
        for number in range(3_000):
            file.write(f"{number} {'x' * 4_000}\n")
    backfill.intake = Intake(Unwritten(), OpenGate(), {"reply"}, new_ids)  # type: ignore[arg-type]  takes in and forgets
    tracemalloc.start()
    with path.open("rb") as file:
        summary = run_backfill(
            rows_of(path.name, file, Columns({}, {})),
            lambda incoming: backfill.intake.take_in(incoming, NOW),
            tenant="acme",
            chunk=100,
            progress=lambda _: None,
            refused=lambda *_: None,
        )
        assert file.tell() == path.stat().st_size
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summary.new == 3_000
    assert peak < 6_000_000


class Unwritten:
    """A ledger's place in a test of memory alone: what SQLite keeps is not what a file costs."""

    def accept(self, arrivals: list[Any], _now: datetime) -> Iterator[Any]:
        return (Receipt(ticket_id=each.ticket.id, state=each.state, duplicate=False) for each in arrivals)


def test_what_was_run_is_noted(backfill: Backfill) -> None:
    notes = SqlBackfills(backfill.engine)
    backfill_id = notes.begin("acme", "/home/me/tickets.csv", NOW)
    notes.end(backfill_id, read=3, new=2, refused=1, now=NOW)
    with reading(backfill.engine) as connection:
        (row,) = connection.execute(sa.select(backfills)).mappings()
    assert (row["file"], row["rows_read"], row["rows_new"], row["rows_refused"]) == ("/home/me/tickets.csv", 3, 2, 1)
