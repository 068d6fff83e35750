"""What operators do with the gate: ask it, see how right it was, teach it, go back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ops.gate.decisions import Decision, decisions
from ops.gate.learning import MOST_LOST, STEP, honest_lost, learned
from ops.migrate import migrate
from producer.adapters.gate_model import load_model
from producer.adapters.gate_versions import GateVersions, Renewal
from producer.adapters.ledger import SqlLedger, new_ids
from producer.adapters.reviews import SqlReviews
from producer.adapters.verdicts import SqlTally
from producer.admission import Admission
from producer.intake import Incoming, Intake
from producer.policy.gate import TextGate
from producer.policy.senders import SenderLimits, Senders
from producer.policy.text.content import ContentModel, content
from producer.policy.text.reading import read
from producer.policy.trust import Trusted
from producer.ports import Receipt
from schemas.errors import NotFound, Refused
from schemas.ledger import open_ledger
from schemas.review import Order, Step, Why
from schemas.states import State
from schemas.ticket import NewTicket
from tests.ground.reviewing import person
from tests.ops.conftest import Said

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPAM = "WINNER!! You have won a free prize of $1000 cash! Call now 09061701461 or visit www.win-prize.biz to claim."
Command = Callable[..., Said]

HONEST = [
    f"My loan number {n} shows free credit, please call me about the prize draw I entered in May." for n in range(30)
]
ABUSE = [f"Buy {n} cheap followers and likes for your shop now, only {n} dollars." for n in range(30)]


@pytest.fixture(scope="module")
def model() -> ContentModel:
    return load_model()


def admission(sample: float) -> Admission:
    limits = SenderLimits()
    return Admission(TextGate(load_model()), Senders(limits), Senders(limits), None, Trusted(()), sample)


def decided(texts: list[str], honest: bool) -> list[Decision]:
    return [Decision(text, "spam", False, honest) for text in texts]


class TestLearning:
    def test_decisions_move_scores_their_way(self, model: ContentModel) -> None:
        new = learned(model, decided(HONEST, honest=True) + decided(ABUSE, honest=False))
        assert content(read(HONEST[0]), new).spam < content(read(HONEST[0]), model).spam
        assert content(read(ABUSE[0]), new).spam > content(read(ABUSE[0]), model).spam

    def test_no_version_moves_a_line_far_or_loses_more_honest_texts_than_it_may(self, model: ContentModel) -> None:
        new = learned(model, decided(HONEST, honest=True) + decided(ABUSE, honest=False))
        assert abs(new.lines.review - model.lines.review) <= STEP
        assert abs(new.lines.reject - model.lines.reject) <= STEP
        assert new.lines.review <= new.lines.reject
        assert honest_lost(new) <= MOST_LOST
        assert honest_lost(model) <= MOST_LOST

    def test_decisions_that_would_cost_honest_customers_teach_nothing(self, model: ContentModel) -> None:
        spiteful = decided(HONEST, honest=False) * 40 + decided(ABUSE, honest=True) * 40
        with pytest.raises(Refused, match="would cost"):
            learned(model, spiteful)

    def test_a_handful_of_decisions_teaches_nothing(self, model: ContentModel) -> None:
        with pytest.raises(Refused, match="too few"):
            learned(model, decided(HONEST, honest=True) + decided(ABUSE[:5], honest=False))


class TestVersions:
    def test_each_is_kept_and_any_can_be_gone_back_to(self, model: ContentModel, tmp_path: Path) -> None:
        kept = GateVersions(str(tmp_path))
        assert (kept.numbers(), kept.current()) == ([0], 0)
        assert [kept.add(model), kept.add(model)] == [1, 2]
        kept.use(2)
        assert kept.current() == 2
        kept.use(0)
        assert (kept.current(), kept.numbers()) == (0, [0, 1, 2])
        with pytest.raises(NotFound):
            kept.use(3)

    def test_a_gate_at_work_takes_up_the_version_in_use(self, model: ContentModel, tmp_path: Path) -> None:
        kept, taken = GateVersions(str(tmp_path)), list[ContentModel]()
        renewal = Renewal(kept, taken.append)
        renewal.turn()
        assert taken == []
        kept.use(kept.add(model))
        renewal.turn()
        renewal.turn()
        assert len(taken) == 1

    def test_one_that_cannot_be_read_changes_nothing(self, model: ContentModel, tmp_path: Path) -> None:
        kept, taken = GateVersions(str(tmp_path)), list[ContentModel]()
        renewal = Renewal(kept, taken.append)
        kept.use(kept.add(model))
        (tmp_path / "gate" / "0001.npz").write_bytes(b"no model")
        renewal.turn()
        assert taken == []


class TestCommands:
    def test_a_text_is_judged_without_leaving_a_trace(self, ticketmill: Command) -> None:
        said = ticketmill("gate", "judge", SPAM, "--json")
        assert said.code == 0
        assert (said.facts["action"], said.facts["code"]) == ("reject", "spam")
        assert ticketmill("gate", "judge", "Where is my parcel?").out.startswith("accept")

    def test_what_people_decided_is_counted_and_honest_losses_estimated(
        self, ticketmill: Command, tmp_path: Path
    ) -> None:
        url = f"sqlite:///{tmp_path}/ledger.db"
        migrate(url)
        engine = open_ledger(url)
        gate = admission(sample=1.0)
        sent = [Incoming(ticket=NewTicket(body=f"{SPAM} No {number}."), tenant="acme") for number in range(10)]
        receipts = Intake(SqlLedger(engine), gate, {"reply"}, new_ids).take_in(sent, NOON)
        gate.flush(SqlTally(engine), NOON)
        assert all(isinstance(each, Receipt) and each.state is State.IN_REVIEW for each in receipts)
        ids = [each.ticket_id for each in receipts if isinstance(each, Receipt)]
        who, _ = person(engine, "Ana")
        desk = SqlReviews(engine, claim_for=timedelta(minutes=5), undo_for=timedelta(seconds=5))
        desk.carry_out(who, Order(step=Step.ACCEPT, tickets=ids[:1]), NOON)
        desk.carry_out(who, Order(step=Step.REJECT, tickets=ids[1:], reason=Why.SPAM), NOON)
        assert [each.honest for each in decisions(engine)] == [True] + [False] * 9
        engine.dispose()
        facts = ticketmill("gate", "report", "--json", LEDGER_URL=url).facts
        assert facts["rows"] == [{"said": "reject", "code": "sample", "judged": 10, "honest": 1, "abuse": 9}]
        assert facts["verdicts"] == {"review": 10}
        assert facts["honest_lost"] == 0.1
        assert 0.3 < facts["honest_lost_at_most"] < 0.5
        assert "sample" in ticketmill("gate", "report", LEDGER_URL=url).out

    def test_own_texts_make_a_version_that_can_be_put_in_use_and_left_again(
        self, ticketmill: Command, tmp_path: Path
    ) -> None:
        own = tmp_path / "own"
        own.mkdir()
        rows = [f'{{"id": "s{n}", "text": "{text}", "labels": {{"label": "spam"}}}}' for n, text in enumerate(ABUSE)]
        (own / "spam.jsonl").write_text("\n".join(rows))
        said = ticketmill("gate", "train", str(own), "--use", "--json")
        assert said.code == 0, said.err
        assert said.facts["version"] == 1
        assert [each["in_use"] for each in ticketmill("gate", "versions", "--json").facts] == [False, True]
        assert ticketmill("gate", "use", "0").code == 0
        assert [each["in_use"] for each in ticketmill("gate", "versions", "--json").facts] == [True, False]

    def test_a_folder_without_texts_is_refused_by_name(self, ticketmill: Command, tmp_path: Path) -> None:
        said = ticketmill("gate", "train", str(tmp_path))
        assert said.code == 2
        assert "tickets_en.jsonl" in said.err
