"""Settings of the gate: what is turned away for what it says or how often it comes."""

from __future__ import annotations

from typing import Annotated

import msgspec

from schemas.units import Listed, Seconds, Share


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class TextPatternSettings(_Section, frozen=True, kw_only=True):
    """The two limits on a text's characters. Both are upper bounds and reached only by long texts."""

    max_repeat_char: Share = Share(0.5)
    """Largest share of a long text that one character may have; a shorter text may have more."""
    min_entropy: Annotated[float, msgspec.Meta(ge=0, le=20)] = 3.0
    """Bits a character that a long text must hold; a shorter text, which cannot, is asked for fewer."""


class CopySettings(_Section, frozen=True, kw_only=True):
    """Nearly the same text from many senders."""

    window: Seconds = Seconds(86_400.0)
    """A text not heard of for so long is forgotten."""
    senders: Annotated[int, msgspec.Meta(ge=2)] = 4
    """From this many senders on, a copy goes to review."""


class BehaviorSettings(_Section, frozen=True, kw_only=True):
    """How fast one sender may come. A sender is a customer, or who makes requests with one key from one address."""

    max_qps: Annotated[float, msgspec.Meta(gt=0)] = 100.0
    """Tickets, or requests, a second over ``burst_window``."""
    burst_window: Seconds = Seconds(10.0)
    """What the rate is taken over."""
    block_for: Seconds = Seconds(300.0)
    """How long a sender is blocked that goes on after it was told to wait; its record halves in the same time."""
    trusted: Listed = Listed(("127.0.0.0/8", "::1"))
    """Not counted: networks, and ``tenant:NAME``, ``source:NAME`` or ``customer:NAME``; what they say still counts."""
    expected: Annotated[float, msgspec.Meta(ge=1)] = 1.0
    """On a day of sale: so many times the usual traffic is no attack. Multiplies ``max_qps`` and ``copies.senders``."""


class AntiSpamSettings(_Section, frozen=True, kw_only=True):
    """The gate: which tickets are rejected, reviewed or slowed. See docs/gate.md."""

    enabled: bool = True
    """Off: every ticket is accepted."""
    model: str = ""
    """A model that ``ticketmill gate train`` wrote; empty: the version in use, see ``ticketmill gate versions``."""
    sample: Share = Share(0.02)
    """Share of the rejected tickets that goes to review instead, so that honest losses are seen."""
    text_pattern: TextPatternSettings = TextPatternSettings()
    copies: CopySettings = CopySettings()
    behavior: BehaviorSettings = BehaviorSettings()
