"""What each source and job has lately looked like: thresholds follow it.

A lane whose traffic is mostly stopped is under attack and judged more strictly; one whose honest tickets are alike
(a form, a monitoring hook) comes to be allowed more copies, slowly and never without bound.
"""

from __future__ import annotations

import zlib

import msgspec
import numpy as np

LANES = 1024
"""Rows of the table: source and job are hashed to one, so that inventing sources takes no memory."""

WINDOW_S = 600.0
_LEAST_JUDGED = 30
_CALM = 0.2
_ATTACK = 0.7
_MOST_EXTRA = 30


class Mood(msgspec.Struct, frozen=True):
    """How to judge the next ticket of a lane.

    Attributes:
        pressure: 0 calm to 1 under attack.
        extra_senders: so many more senders of one text than usual are no sign of anything here.
    """

    pressure: float = 0.0
    extra_senders: int = 0


class Lanes:
    """Counts of two windows a lane, the running one and the one before it."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._window = np.zeros(LANES, np.int64)
        self._judged = np.zeros((LANES, 2))
        self._stopped = np.zeros((LANES, 2))
        self._copies = np.zeros((LANES, 2))

    @property
    def size_bytes(self) -> int:
        """What the table takes, now and for ever."""
        return self._window.nbytes + self._judged.nbytes + self._stopped.nbytes + self._copies.nbytes

    def mood(self, lane: int, now_s: float) -> Mood:
        """The lane's mood, from the last full window and the running one, weighted by its age."""
        age = self._turn(lane, now_s)
        judged = float(self._judged[lane, 0] + (1 - age) * self._judged[lane, 1])
        stopped = float(self._stopped[lane, 0] + (1 - age) * self._stopped[lane, 1])
        pressure = 0.0
        if judged >= _LEAST_JUDGED:
            pressure = min(1.0, max(0.0, (stopped / judged - _CALM) / (_ATTACK - _CALM)))
        before = float(self._judged[lane, 1])
        usual = float(self._copies[lane, 1]) / before if before >= _LEAST_JUDGED else 1.0
        return Mood(pressure, min(_MOST_EXTRA, int(2 * max(0.0, usual - 1.0))))

    def note(self, lane: int, now_s: float, stopped: bool, senders: int) -> None:
        """Counts one verdict. Copies count only where they were let in: what is stopped teaches nothing of honesty."""
        self._turn(lane, now_s)
        self._judged[lane, 0] += 1
        if stopped:
            self._stopped[lane, 0] += 1
        self._copies[lane, 0] += 1 if stopped else senders

    def _turn(self, lane: int, now_s: float) -> float:
        """Moves a lane on to the window of ``now_s``; returns that window's age, 0 to 1."""
        place = now_s / self._window_s
        window = int(place)
        passed = window - int(self._window[lane])
        if passed > 0:
            for table in (self._judged, self._stopped, self._copies):
                table[lane, 1] = table[lane, 0] if passed == 1 else 0.0
                table[lane, 0] = 0.0
            self._window[lane] = window
        return min(1.0, max(0.0, place - window))


def lane_of(*names: str) -> int:
    """The lane of a source and job."""
    return zlib.crc32("\x00".join(names).encode(errors="replace")) % LANES
