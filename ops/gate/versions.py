"""The versions of the gate, as facts."""

from __future__ import annotations

import msgspec

from producer.adapters.gate_versions import GateVersions
from producer.policy.text.content import Lines


class Version(msgspec.Struct, frozen=True):
    """One version.

    Attributes:
        lines: from which scores on texts are reviewed and rejected.
        texts: labelled texts it was trained on.
        decisions: of people that it learned from.
    """

    version: int
    in_use: bool
    lines: Lines
    texts: int
    decisions: int


def listed(kept: GateVersions) -> list[Version]:
    """Every version, the shipped one first."""
    current = kept.current()
    found: list[Version] = []
    for number in kept.numbers():
        model = kept.load(number)
        texts = sum(model.about.get("texts", {}).values())
        found.append(Version(number, number == current, model.lines, texts, model.about.get("learned", 0)))
    return found
