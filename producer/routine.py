"""Something that is done again and again on a thread of its own, through whatever goes away and comes back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from schemas.errors import Unavailable

log = logging.getLogger("ticketmill")

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


class Routine:
    """Calls ``turn`` until it is stopped.

    Args:
        turn: one round; returns how many seconds to wait before the next.
        last: done once when it is told to stop.

    Attributes:
        trouble: why the last turn failed; empty while all is well.
    """

    def __init__(self, name: str, turn: Callable[[], float], last: Callable[[], None]) -> None:
        self.name = name
        self.trouble = ""
        self._turn = turn
        self._last = last
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Lets the turn that runs come to its end, and begins no other."""
        self._stopping.set()

    def join(self, within_s: float) -> None:
        """Waits for its end, but no longer than ``within_s``: nothing is lost with what it leaves undone."""
        self._thread.join(within_s)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                wait_s = self._turn()
                self._note("")
                pause_s = FIRST_PAUSE_S
            except Unavailable as error:
                self._note(str(error))
                wait_s, pause_s = pause_s, min(2 * pause_s, LONGEST_PAUSE_S)
            except Exception as error:
                log.exception("%s: a fault of our own; going on", self.name)
                self.trouble = f"{self.name} has a fault of its own ({type(error).__name__})"
                wait_s, pause_s = pause_s, min(2 * pause_s, LONGEST_PAUSE_S)
            self._stopping.wait(wait_s)
        try:
            self._last()
        except Unavailable as error:
            log.warning("%s: %s; what is left is done after the next start", self.name, error)

    def _note(self, trouble: str) -> None:
        if trouble and not self.trouble:
            log.warning("%s: %s; trying again", self.name, trouble)
        if self.trouble and not trouble:
            log.warning("%s: works again", self.name)
        self.trouble = trouble
