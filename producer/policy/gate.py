"""Admission: a verdict on each ticket at the door, from what it says and from what was said lately."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

from producer.policy.copies import Copies, CopyLimits, CopyMemory
from producer.policy.lanes import Lanes, Mood, lane_of
from producer.policy.text.content import Content, ContentModel, content, says_enough
from producer.policy.text.reading import Reading, read
from producer.policy.text.shape import Fault, ShapeLimits, faults, is_code, is_records
from schemas.ticket import Ticket
from schemas.verdict import Action, Code, Verdict


class Evidence(msgspec.Struct, frozen=True):
    """All that a verdict rests on. ``enough``: its wording says enough to be judged by it."""

    faults: tuple[Fault, ...]
    content: Content
    copies: Copies
    enough: bool


class TextGate:
    """Admission by what a ticket says and how often it was said. One thread's; it remembers a bounded past.

    The same tickets at the same times bring the same verdicts.
    """

    def __init__(self, model: ContentModel, shape: ShapeLimits | None = None, copies: CopyLimits | None = None) -> None:
        self._model = model
        self._shape = shape or ShapeLimits()
        self._copy_limits = copies or CopyLimits()
        self._copies = CopyMemory(self._copy_limits)
        self._lanes = Lanes()

    @property
    def size_bytes(self) -> int:
        """What the gate remembers the past in: the same now and for ever."""
        return self._copies.size_bytes + self._lanes.size_bytes

    def renew(self, model: ContentModel) -> None:
        """Judges by another model from now on."""
        self._model = model

    def judge(self, ticket: Ticket, now: datetime) -> Verdict:
        """The verdict on a ticket that comes now."""
        now_s = now.timestamp()
        reading = read(_text(ticket))
        lane = lane_of(ticket.tenant, ticket.source, ticket.job)
        mood = self._lanes.mood(lane, now_s)
        copies = Copies()
        if ticket.customer:  # without one nobody can say whether it is one sender or many
            copies = self._copies.meet(reading, ticket.tenant, ticket.customer, now_s)
        verdict = decided(self._evidence(reading, copies, mood), self._model, self._copy_limits, mood)
        self._lanes.note(lane, now_s, verdict.action is not Action.ACCEPT, copies.senders)
        return verdict

    def judge_held(self, ticket: Ticket) -> Verdict:
        """The verdict on a ticket of the past, by what it says alone; remembers nothing."""
        return decided(self._evidence(read(_text(ticket)), Copies(), Mood()), self._model, self._copy_limits, Mood())

    def _evidence(self, reading: Reading, copies: Copies, mood: Mood) -> Evidence:
        wrong = tuple(faults(reading, self._model.letters, self._shape, mood.pressure))
        said = content(reading, self._model) if reading.chars else Content(-99.0, -99.0)
        enough = says_enough(reading) and not is_records(reading) and not is_code(reading)
        return Evidence(wrong, said, copies, enough)


def _text(ticket: Ticket) -> str:
    return f"{ticket.subject}\n{ticket.body}" if ticket.subject else ticket.body


def decided(evidence: Evidence, model: ContentModel, limits: CopyLimits, mood: Mood) -> Verdict:
    """The verdict that evidence calls for. What may be creative writing is never rejected."""
    lines, spam = model.lines, evidence.content.spam
    spammy = evidence.enough and spam >= lines.review - mood.pressure * (lines.review - lines.strict)
    copied = _copied(evidence.copies, limits, mood)
    reasons = [fault.why for fault in evidence.faults]
    if spammy:
        reasons.append(f"its wording is that of spam ({_probability(spam):.0%})")
    if copied:
        reasons.append(copied)
    if not reasons:
        return Verdict(scores=_scores(evidence))
    certain = any(fault.certain for fault in evidence.faults)
    rejected = certain or (spammy and (spam >= lines.reject or bool(copied) or bool(evidence.faults)))
    code = Code.SPAM if spammy and not certain else Code.SHAPE if evidence.faults else Code.COPIES
    if rejected and evidence.content.creative >= lines.creative:
        rejected, code = False, Code.CREATIVE
        reasons.append("it may be creative writing, so a person decides")
    action = Action.REJECT if rejected else Action.REVIEW
    return Verdict(action=action, code=code, reasons=tuple(reasons), scores=_scores(evidence))


def _copied(seen: Copies, limits: CopyLimits, mood: Mood) -> str:
    if seen.senders >= limits.senders + mood.extra_senders:
        return f"{seen.senders} senders have sent nearly the same text"
    if seen.times >= limits.alone + mood.extra_senders:
        return f"nearly the same text came {seen.times} times"
    return ""


def _scores(evidence: Evidence) -> dict[str, float]:
    scores = {
        "spam": round(_probability(evidence.content.spam), 4),
        "creative": round(_probability(evidence.content.creative), 4),
    }
    scores.update({fault.name: round(float(fault.measure), 4) for fault in evidence.faults})
    if evidence.copies.times > 1:
        scores["copies"] = float(evidence.copies.times)
        scores["senders"] = float(evidence.copies.senders)
    return scores


def _probability(odds: float) -> float:
    return 1 / (1 + math.exp(-min(40.0, max(-40.0, odds))))
