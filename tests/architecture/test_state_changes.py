"""Only ``schemas/ledger.py`` moves a ticket from state to state, so that no move skips the machine or its history."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.checkout import PACKAGES, texts

SQL = re.compile(r"\bUPDATE\s+tickets\b", re.IGNORECASE)


def state_changes(source: str) -> list[int]:
    """Lines of statements that update the state of a ticket's row."""
    lines: list[int] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.With | ast.If):
            inner = list(ast.walk(node))
            if any(_updates_tickets(each) for each in inner) and any(_names_state(each) for each in inner):
                lines.append(node.lineno)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.search(node.value):
            lines.append(node.lineno)
    return lines


def _updates_tickets(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    match node.func:
        case ast.Attribute(attr="update", value=ast.Name(id="tickets")):
            return True
        case ast.Attribute(attr="update") | ast.Name(id="update"):
            return bool(node.args) and ast.unparse(node.args[0]).split(".")[-1] == "tickets"
        case _:
            return False


def _names_state(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="values")):
            keywords = [keyword.arg for keyword in node.keywords]
            keys = [key.value for arg in node.args for key in ast.walk(arg) if isinstance(key, ast.Constant)]
            return "state" in keywords or "state" in keys
        case _:
            return False


@pytest.mark.parametrize(
    "source",
    [
        "connection.execute(sa.update(tickets).where(tickets.c.id == i).values(state='queued'))",
        "connection.execute(tickets.update().values({'state': 'queued'}))",
        "q = update(tables.tickets).values(due_at=now, state=after)",
        "connection.execute(sa.text('update tickets set state = 1'))",
    ],
)
def test_a_change_of_state_is_seen(source: str) -> None:
    assert state_changes(source) == [1]


def test_other_changes_are_none() -> None:
    assert state_changes("run(sa.update(tickets).where(tickets.c.state == 'queued').values(published_at=now))") == []
    assert state_changes("run(sa.insert(tickets).values(state='queued'))") == []


def test_nothing_but_the_ledger_changes_a_state() -> None:
    found = [
        f"{path}:{line}"
        for path, text in texts()
        if path.suffix == ".py" and path.parts[0] in PACKAGES and str(path) != "schemas/ledger.py"
        for line in state_changes(text)
    ]
    assert found == []
