"""The engine that computes nothing still keeps the port's promises."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from schemas.job import Job
from schemas.settings import Settings, WorkerSettings
from schemas.ticket import Ticket
from tests.contract.tickets import NOON as NOW
from workers.engine import open_engine
from workers.engine.memory import host_memory
from workers.ports import Completed, Work


def _work(name: str) -> Work:
    ticket = Ticket(id=name, tenant="acme", received_at=datetime(2030, 1, 1, tzinfo=UTC), body="Where is my card?")
    return Work(ticket=ticket, job=Job(system="Answer."))


def test_every_ticket_added_is_answered_once_and_dropped_ones_are_not() -> None:
    engine = open_engine(Settings(worker=WorkerSettings(engine="noop")), lambda: NOW)
    for name in ("a", "b", "c"):
        engine.add(_work(name))
    engine.drop(["b"])
    assert engine.running == 2
    ended = engine.step()
    assert [each.ticket_id for each in ended] == ["a", "c"]
    assert all(isinstance(each, Completed) for each in ended)
    assert engine.running == 0
    assert engine.step() == []
    assert 0 < engine.load().memory_share < 1


def test_a_container_with_a_nearer_limit_is_what_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 600000\ninactive_file 100000\n")
    memory = host_memory(tmp_path)
    assert (memory.used_bytes, memory.total_bytes) == (600_000, 1_000_000)


def test_a_container_without_a_limit_leaves_the_machines_figures(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("inactive_file 0\n")
    assert host_memory(tmp_path).total_bytes > 1_000_000
