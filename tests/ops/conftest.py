"""What the tests of the command share: running it in this process, and a ledger with something to see."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ops.cli import run
from producer.adapters.ledger import SqlLedger as ProducerLedger
from producer.adapters.ledger import new_ids
from producer.admission import OpenGate
from producer.intake import Incoming, Intake
from producer.ports import Receipt
from schemas.answer import Answer
from schemas.outcome import Answered, Dead, Outcome
from schemas.ticket import new_ticket_from
from tests.ground.ledgers import TestLedger
from workers.adapters.ledger import SqlLedger
from workers.ports import Delivery, Settlement, Start

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOSTILE = "\x1b[31mred\x1b[0m \u202efdp.exe [bold]x[/bold]"


@dataclass
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def ticketmill(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Said]:
    """``ticketmill("show", "x")`` runs that command line here, with a home of its own and no settings but ``env``."""
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG", "HOME", "BROKER_URL", "LEDGER_URL", "DEBUG"):
        monkeypatch.delenv(f"TICKETMILL_{name}", raising=False)

    def command(*arguments: str, **env: str) -> Said:
        with monkeypatch.context() as patch:
            patch.setenv("TICKETMILL_HOME", str(tmp_path / "home"))
            patch.delenv("TICKETMILL_DATA", raising=False)
            for name, value in env.items():
                patch.setenv(f"TICKETMILL_{name}", value)
            capsys.readouterr()
            code = run(arguments)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return command


class Desk:
    """Tickets put into a ledger and settled, as the parts themselves would do it."""

    def __init__(self, ledger: TestLedger) -> None:
        self.url = ledger.url
        self.engine = ledger.engine
        self._intake = Intake(ProducerLedger(ledger.engine), OpenGate(), {"reply", "triage"}, new_ids)
        self._worker = SqlLedger(ledger.engine)

    def take(self, body: str = "Where is my parcel?", **fields: Any) -> Receipt:
        incoming = Incoming(ticket=new_ticket_from({"body": body, **fields}), tenant="acme")
        (receipt,) = self._intake.take_in([incoming], NOON)
        assert isinstance(receipt, Receipt)
        return receipt

    def settle(self, receipt: Receipt, outcome: Outcome) -> str:
        delivery = Delivery(stub=receipt.stub, token="", queue="")
        self._worker.commit([], [Start(delivery=delivery)], "celery@here", NOON)
        ended = NOON + timedelta(seconds=2)
        settlement = Settlement(
            ticket_id=receipt.ticket_id,
            start=1,
            outcome=outcome,
            batch="b1",
            batch_size=8,
            started_at=NOON,
            ended_at=ended,
        )
        assert self._worker.commit([settlement], [], "celery@here", ended).settled == {receipt.ticket_id}
        return receipt.ticket_id

    def answered(self, text: str = "On its way.", **fields: Any) -> str:
        return self.settle(self.take(**fields), Answered(Answer(text=text, model="m")))

    def dead(self, reason: str, **fields: Any) -> str:
        return self.settle(self.take(**fields), Dead(reason))

    def stray(self, body: bytes, reason: str) -> None:
        delivery = Delivery(stub=None, token="", queue="ticketmill.low", headers=b"{}", body=body)
        self._worker.stray([delivery], reason, NOON)


@pytest.fixture
def desk(ledger: TestLedger) -> Desk:
    return Desk(ledger)
