"""How a sender behaves: how fast it comes, how it takes being told to wait, and how even its beat is.

A sender that goes on over its limit after it was told to wait climbs from level to level, and comes down by itself
once it behaves. What it may send is counted in a window that slides; what it sends beyond is its heat, which fades.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from enum import IntEnum

import msgspec


class Level(IntEnum):
    """How a sender is treated."""

    NORMAL = 0
    SLOWED = 1
    CHALLENGED = 2
    BLOCKED = 3


class SenderLimits(msgspec.Struct, frozen=True):
    """What one sender may do.

    Attributes:
        per_window: tickets in any ``window_s``.
        block_s: how long a sender is blocked, and how long heat takes to halve.
        most: senders remembered; the one that has been silent longest is forgotten first.
    """

    per_window: float = 1_000.0
    window_s: float = 10.0
    block_s: float = 300.0
    most: int = 100_000


HEAT = {Level.SLOWED: 1.0, Level.CHALLENGED: 3.0, Level.BLOCKED: 6.0}
"""From how much heat on. One unit is a whole window's worth of tickets beyond the limit."""

SLOWED_SHARE = 0.1
"""What a slowed or challenged sender may send, as a share of the limit."""

EVEN_SHARE = 0.5
"""The same for one that keeps the even beat of a machine."""

HEARD_S = 1.0
"""How long it takes a sender to hear that it must wait: what it had sent by then is no sign of ill will."""

_EVEN = 0.05
_BEATS = 40


class Pace(msgspec.Struct, frozen=True):
    """How a sender is to be treated now.

    Attributes:
        wait_s: 0 where this ticket may pass; else when to come back.
        count: what it has sent within the window, this included.
        close: it has used up a good part of its limit: others who count it should be asked.
    """

    level: Level = Level.NORMAL
    wait_s: float = 0.0
    count: float = 0.0
    limit: float = math.inf
    close: bool = False


class _Sender(msgspec.Struct, gc=False):
    window: int = 0
    now: float = 0.0
    before: float = 0.0
    heat: float = 0.0
    heated_at: float = 0.0
    blocked_until: float = 0.0
    told_at: float = -math.inf
    refused_at: float = -math.inf
    last_s: float = 0.0
    gap_s: float = 0.0
    swing_s: float = 0.0
    beats: int = 0


class Senders:
    """What is remembered of each sender: a fixed number of them, some two hundred bytes each."""

    def __init__(self, limits: SenderLimits) -> None:
        self._limits = limits
        self._known: OrderedDict[str, _Sender] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def window_s(self) -> float:
        """The window that its limit is taken over."""
        return self._limits.window_s

    def pace(self, name: str, now_s: float) -> Pace:
        """Counts one ticket of a sender and says how to treat it."""
        limits = self._limits
        sender = self._of(name, now_s)
        if now_s < sender.blocked_until:
            return Pace(Level.BLOCKED, sender.blocked_until - now_s, sender.now, 0.0)
        _count_beat(sender, now_s)
        level = self._level(sender, now_s)
        limit = limits.per_window
        if level > Level.NORMAL:
            limit *= SLOWED_SHARE
        elif _even(sender):
            limit *= EVEN_SHARE
        age = self._turn(sender, now_s)
        count = sender.now + 1 + (1 - age) * sender.before
        if count <= limit:
            sender.now += 1
            return Pace(level, 0.0, count, limit, count > limit / 4)
        return self._over(sender, now_s, count, limit)

    def refused(self, name: str, now_s: float) -> Pace:
        """A ticket of this sender went over a limit that is counted elsewhere."""
        return self._over(self._of(name, now_s), now_s, self._limits.per_window, self._limits.per_window)

    def blame(self, name: str, heat: float, now_s: float) -> None:
        """Heats a sender for what it sent rather than how often."""
        sender = self._of(name, now_s)
        sender.heat = self._heat(sender, now_s) + heat
        sender.heated_at = now_s

    def _over(self, sender: _Sender, now_s: float, count: float, limit: float) -> Pace:
        limits = self._limits
        if now_s - sender.refused_at > 2 * limits.window_s:
            sender.told_at = now_s
        sender.refused_at = now_s
        if now_s - sender.told_at > HEARD_S:
            sender.heat = self._heat(sender, now_s) + 1 / limits.per_window
            sender.heated_at = now_s
        level = self._level(sender, now_s)
        if level is Level.BLOCKED:
            sender.blocked_until = sender.heated_at = now_s + limits.block_s
            sender.heat = 1.5 * HEAT[Level.CHALLENGED]
            return Pace(level, limits.block_s, count, limit)
        # It may come again once the window has slid far enough for one more: at most a whole window.
        wait_s = limits.window_s * min(1.0, max(0.05, (count - limit) / max(1.0, count)))
        return Pace(level, wait_s, count, limit)

    def _of(self, name: str, now_s: float) -> _Sender:
        sender = self._known.get(name)
        if sender is not None:
            self._known.move_to_end(name)
            return sender
        if len(self._known) >= self._limits.most:
            self._known.popitem(last=False)
        sender = self._known[name] = _Sender(heated_at=now_s, last_s=now_s)
        return sender

    def _heat(self, sender: _Sender, now_s: float) -> float:
        if not sender.heat:
            return 0.0
        return sender.heat * 0.5 ** (max(0.0, now_s - sender.heated_at) / self._limits.block_s)

    def _level(self, sender: _Sender, now_s: float) -> Level:
        heat = self._heat(sender, now_s)
        return max((level for level, least in HEAT.items() if heat >= least), default=Level.NORMAL)

    def _turn(self, sender: _Sender, now_s: float) -> float:
        """Moves a sender on to the window of ``now_s``; returns that window's age, 0 to 1."""
        place = now_s / self._limits.window_s
        window = int(place)
        passed = window - sender.window
        if passed > 0:
            sender.before = sender.now if passed == 1 else 0.0
            sender.now = 0.0
            sender.window = window
        return min(1.0, max(0.0, place - window))


def _count_beat(sender: _Sender, now_s: float) -> None:
    gap_s = max(0.0, now_s - sender.last_s)
    sender.last_s = now_s
    if gap_s == 0.0:
        return  # one of several that came together
    share = 1 / min(_BEATS, sender.beats + 1)
    sender.swing_s += share * (abs(gap_s - sender.gap_s) - sender.swing_s)
    sender.gap_s += share * (gap_s - sender.gap_s)
    sender.beats += 1


def _even(sender: _Sender) -> bool:
    return sender.beats >= _BEATS and sender.swing_s < _EVEN * sender.gap_s
