"""Honest tickets with contact details put in: order numbers, links, prices, phone numbers, addresses.

A classifier that has only seen spam with a link learns that links are spam. It is trained on such copies, and judged
on others: the sentences of the two sets are different ones.
"""

from __future__ import annotations

import random
from typing import Literal

from ops.gate.seeds import patterns, written

Part = Literal["train", "judge"]


def with_contacts(text: str, chance: random.Random, part: Part, chinese: bool) -> str:
    """One copy of a ticket with one to three details in it, said in the sentences of ``part``."""
    said = patterns(f"contacts_{'zh' if chinese else 'en'}_{part}")
    for _ in range(chance.choice((1, 1, 2, 3))):
        text = _joined(text, written(chance.choice(said), chance), chance)
    return text


def _joined(text: str, addition: str, chance: random.Random) -> str:
    between = chance.choice((" ", " ", " ", "\n", "\n\n", ", ", ""))
    if between == "" and text[-1:].isascii():
        between = " "
    return f"{addition}{between}{text}" if chance.random() < 0.25 else f"{text}{between}{addition}"
