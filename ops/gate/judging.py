"""What the gate makes of text whose kind is known."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np

from ops.gate.contacts import with_contacts
from ops.gate.corpus import Sample
from ops.gate.floods import KINDS, drip
from producer.policy.gate import TextGate
from producer.policy.text.content import ContentModel
from schemas.ticket import Priority, Ticket
from schemas.verdict import Action, Verdict

REPETITION = 0.2
"""Share of repeated word or character 3-grams over which a naive rule would stop a text."""

_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_SPAN = 500
"""Characters of the longer texts whose cost is measured."""


class Judged(msgspec.Struct, frozen=True):
    """A text and the verdict on it."""

    text: str
    verdict: Verdict

    @property
    def rejected(self) -> bool:
        """Turned away for good."""
        return self.verdict.action is Action.REJECT

    @property
    def flagged(self) -> bool:
        """Sent to review or slowed, not rejected."""
        return self.verdict.action in (Action.REVIEW, Action.THROTTLE)

    @property
    def stopped(self) -> bool:
        """Rejected or sent to review."""
        return self.verdict.action in (Action.REJECT, Action.REVIEW)

    @property
    def creative(self) -> bool:
        """Recognised as what may be creative writing."""
        return self.verdict.scores.get("creative", 0.0) >= 0.5


Verdicts = dict[str, list[Judged]]
"""By kind: those of ``Sample``, and ``contacts``, ``floods``, ``copies``."""


def judged(gate: TextGate, texts: Sequence[str], gap_s: float = 1.0) -> list[Judged]:
    """Verdicts on texts from as many customers, one every ``gap_s``, in one stream."""
    verdicts: list[Judged] = []
    for number, text in enumerate(texts):
        now = _START + timedelta(seconds=gap_s * number)
        verdicts.append(Judged(text, gate.judge(ticket(text, number, now), now)))
    return verdicts


def ticket(text: str, number: int, now: datetime) -> Ticket:
    """A ticket of a customer of its own."""
    return Ticket(
        id=f"t{number}", tenant="bench", body=text, customer=f"c{number}", priority=Priority.NORMAL, received_at=now
    )


def verdicts(model: ContentModel, samples: Sequence[Sample], quick: bool = False) -> Verdicts:
    """Verdicts on every sample, on honest ones with contact details put in, on floods and on drips of copies.

    Every kind meets a gate that remembers nothing yet.
    """
    chance = random.Random(23)
    texts: dict[str, list[str]] = {
        kind: [sample.text for sample in samples if sample.kind == kind]
        for kind in ("honest_en", "honest_zh", "ham", "spam", "creative")
    }
    texts["contacts"] = [
        with_contacts(sample.text, chance, "judge", sample.kind == "honest_zh")
        for sample in samples
        if sample.kind in ("honest_en", "honest_zh")
    ]
    found = {kind: judged(TextGate(model), of_kind) for kind, of_kind in texts.items()}
    found["floods"] = [
        judged(TextGate(model), [make(chance)])[0] for make in KINDS.values() for _ in range(10 if quick else 50)
    ]
    sayings = texts["spam"] + texts["honest_en"] + texts["honest_zh"]
    found["copies"] = list(_dripped(model, sayings, chance, 10 if quick else 40))
    return found


def figures(found: Mapping[str, Sequence[Judged]]) -> dict[str, float]:
    """Shares of each kind by what became of it."""
    honest = [*found["honest_en"], *found["honest_zh"]]
    creative = found["creative"]
    tempting = [each for each in creative if printed_rule(each.text) or repetition(each.text) >= REPETITION]
    return {
        "honest_rejected_en": share(found["honest_en"], lambda each: each.rejected),
        "honest_rejected_zh": share(found["honest_zh"], lambda each: each.rejected),
        "honest_flagged": share(honest, lambda each: each.flagged),
        "contact_rejected": share(found["contacts"], lambda each: each.rejected),
        "contact_flagged": share(found["contacts"], lambda each: each.flagged),
        "ham_rejected": share(found["ham"], lambda each: each.rejected),
        "ham_flagged": share(found["ham"], lambda each: each.flagged),
        "creative_rejected": share(creative, lambda each: each.rejected),
        "creative_flagged": share(creative, lambda each: each.flagged),
        "creative_recognised": share(tempting, lambda each: each.creative or each.flagged),
        "spam_rejected": share(found["spam"], lambda each: each.rejected),
        "spam_stopped": share(found["spam"], lambda each: each.stopped),
        "flood_rejected": share(found["floods"], lambda each: each.rejected),
        "flood_stopped": share(found["floods"], lambda each: each.stopped),
        "copies_stopped": share(found["copies"], lambda each: each.stopped),
    }


def of_channel(model: ContentModel, samples: Sequence[Sample], channel: str) -> tuple[list[Judged], list[Judged]]:
    """Verdicts on the spam and on the ham of one channel."""
    texts = {kind: [each.text for each in samples if each.channel == channel and each.kind == kind] for kind in _SIDES}
    return judged(TextGate(model), texts["spam"]), judged(TextGate(model), texts["ham"])


_SIDES = ("spam", "ham")


def speed(model: ContentModel, texts: Sequence[str], many: int) -> dict[str, float]:
    """Verdicts a second of one core's time: on tickets as they come, and on ones of _SPAN characters."""
    if not texts:
        return {}
    chance = random.Random(5)
    mix = [chance.choice(texts) for _ in range(many)]
    spans: list[str] = []
    while len(spans) < many // 4:
        joined = ""
        while len(joined) < _SPAN:
            joined += chance.choice(texts) + " "
        spans.append(joined[:_SPAN])
    return {"verdicts_per_s": _rate(model, mix), "verdicts_per_s_500": _rate(model, spans)}


def share(of: Sequence[Judged], which: Callable[[Judged], bool]) -> float:
    """The share of them for which it holds; 0 of none."""
    return round(sum(map(which, of)) / len(of), 5) if of else 0.0


def repetition(text: str) -> float:
    """The larger share of repeated 3-grams, of words or of characters."""
    words = text.split()
    return max(
        _repeated([tuple(words[i : i + 3]) for i in range(len(words) - 2)]),
        _repeated([text[i : i + 3] for i in range(len(text) - 2)]),
    )


def printed_rule(text: str) -> bool:
    """The rule as printed: one character over half of the text, or under three bits a character."""
    counts = np.unique(np.array([ord(char) for char in text]), return_counts=True)[1] / max(1, len(text))
    return bool(len(text)) and (float(counts.max()) > 0.5 or float(-(counts * np.log2(counts)).sum()) < 3.0)


def _repeated(grams: Sequence[object]) -> float:
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def _dripped(model: ContentModel, texts: Sequence[str], chance: random.Random, many: int) -> Iterator[Judged]:
    """Copies of texts that say enough to be told apart, from the fourth on, among as many other tickets."""
    bases = [text for text in texts if 40 <= len(text) <= 400 or (len(text) >= 16 and text[0] > "\u3000")]
    if not bases:
        return
    for base in chance.sample(bases, min(many, len(bases))):
        stream = [text for _ in range(12) for text in (chance.choice(bases), drip(base, chance))]
        yield from judged(TextGate(model), stream, gap_s=600.0)[7::2]


def _rate(model: ContentModel, texts: Sequence[str]) -> float:
    gate = TextGate(model)
    tickets = [ticket(text, number, _START) for number, text in enumerate(texts)]
    for each in tickets[:100]:
        gate.judge(each, _START)
    began = time.process_time()
    for number, each in enumerate(tickets):
        gate.judge(each, _START + timedelta(seconds=number))
    return round(len(tickets) / (time.process_time() - began), 1)
