"""The settler: the thread that commits. What piled up while one transaction ran goes into the next one together.

It never gives up on a ledger that is away: nothing is acknowledged in the meantime, the leases are renewed by the
consumer thread, and no new ticket can start, so that nothing piles up either.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from schemas.errors import LedgerUnavailable
from schemas.outcome import Answered, Cancelled, Dead
from workers.ports import Clock, Committed, Delivery, Ledger, Results, Settlement, Start
from workers.upstreams import News

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What one round of the settler did.

    Attributes:
        committed: what the ledger says of the settlements and starts.
        refused: the ledger would not take the one settlement or start, for a reason of its own.
        strayed: messages that are kept as strays now.
    """

    settlements: Sequence[Settlement] = ()
    starts: Sequence[Start] = ()
    committed: Committed = Committed()
    refused: bool = False
    strayed: Sequence[Delivery] = ()


class _Inbox(msgspec.Struct):
    settlements: list[Settlement] = []
    starts: list[Start] = []
    strays: list[Delivery] = []
    news: list[News] = []
    beat: tuple[int, str] | None = None

    def __bool__(self) -> bool:
        return bool(self.settlements or self.starts or self.strays or self.news or self.beat)


class Settler(threading.Thread):
    """Commits starts and outcomes, then results, and reports after each round.

    Args:
        worker: our name in the ledger, unlike that of any process before us.
        results: None if no result backend is set.
        report: called on this thread.
    """

    def __init__(
        self,
        ledger: Ledger,
        results: Results | None,
        worker: str,
        clock: Clock,
        report: Callable[[Settled], None],
    ) -> None:
        super().__init__(name="settler", daemon=True)
        self._ledger = ledger
        self._results = results
        self._worker = worker
        self._clock = clock
        self._report = report
        self._changed = threading.Condition()
        self._inbox = _Inbox()
        self._stopping = False

    def begin(self, starts: Sequence[Start]) -> None:
        """Has these tickets marked running. From any thread, like all that follow."""
        with self._changed:
            self._inbox.starts.extend(starts)
            self._changed.notify()

    def settle(self, settlements: Sequence[Settlement], news: Sequence[News] = ()) -> None:
        """Has these outcomes committed, and with them what was learnt of upstreams."""
        with self._changed:
            self._inbox.settlements.extend(settlements)
            self._inbox.news.extend(news)
            self._changed.notify()

    def stray(self, deliveries: Sequence[Delivery]) -> None:
        """Has these messages kept as strays."""
        with self._changed:
            self._inbox.strays.extend(deliveries)
            self._changed.notify()

    def beat(self, slots: int, model: str) -> None:
        """Has the ledger told that we live."""
        with self._changed:
            self._inbox.beat = slots, model
            self._changed.notify()

    def stop(self, wait_s: float) -> None:
        """Ends the thread once it has nothing to do, or at once if the ledger is away."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self.join(wait_s)

    def run(self) -> None:
        """The thread's work."""
        while True:
            with self._changed:
                while not self._inbox and not self._stopping:
                    self._changed.wait()
                if not self._inbox:
                    return
                inbox, self._inbox = self._inbox, _Inbox()
            rounds = deque([inbox])
            while rounds:
                follow = self._until_done(rounds.popleft())
                if follow is None:
                    return
                rounds.extendleft(reversed(follow))

    def _until_done(self, inbox: _Inbox) -> list[_Inbox] | None:
        """One round, tried until the ledger answers. None if we are told to stop before that."""
        pause_s = 0.0
        while True:
            try:
                follow = self._round(inbox)
            except LedgerUnavailable as error:
                if not pause_s:
                    logger.error("%s; nothing is acknowledged until it answers, and tried again until then", error)
                pause_s = min(LONGEST_PAUSE_S, 2 * pause_s or FIRST_PAUSE_S)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, pause_s)
                    if self._stopping:
                        return None
                continue
            if pause_s:
                logger.warning("the ledger answers again")
            return follow

    def _round(self, inbox: _Inbox) -> list[_Inbox]:
        """Writes what is in the inbox. What the ledger does not take as a whole comes back in parts."""
        now = self._clock.utc_now()
        if inbox.beat is not None:
            self._ledger.beat(self._worker, *inbox.beat, now)
            inbox.beat = None
        if inbox.strays:
            self._ledger.stray(inbox.strays, "is no ticket of ours", now)
            self._report(Settled(strayed=inbox.strays))
            inbox.strays = []
        settlements, starts = inbox.settlements, inbox.starts
        if not settlements and not starts and not inbox.news:
            return []
        try:
            committed = self._ledger.commit(settlements, starts, self._worker, now, inbox.news)
        except LedgerUnavailable:
            raise
        except Exception as error:
            logger.exception("the ledger would not take %d outcomes and %d starts", len(settlements), len(starts))
            return self._parts(settlements, starts, error)
        for before, after in committed.turned:
            logger.warning("breaker %s: %s -> %s %s", after.name, before.mode, after.mode, after.reason)
        if committed.answered:
            settlements = [each.given(committed.answered) for each in settlements]
        if self._results is not None:
            self._tell(self._results, settlements, committed)
        self._report(Settled(settlements=settlements, starts=starts, committed=committed))
        return []

    def _parts(self, settlements: Sequence[Settlement], starts: Sequence[Start], error: Exception) -> list[_Inbox]:
        """One bad ticket never fails its neighbours: each alone; and one that is alone is given up."""
        if len(settlements) + len(starts) > 1:
            return [
                *(_Inbox(settlements=[each]) for each in settlements),
                *(_Inbox(starts=[each]) for each in starts),
            ]
        for each in settlements:
            if not isinstance(each.outcome, Dead):
                why = Dead(f"its outcome could not be written: {type(error).__name__}")
                return [_Inbox(settlements=[msgspec.structs.replace(each, outcome=why)])]
        self._report(Settled(settlements=settlements, starts=starts, refused=True))
        return []

    def _tell(self, results: Results, settlements: Sequence[Settlement], committed: Committed) -> None:
        final: dict[str, Answered | Dead] = {
            task_id: Dead(each.outcome.reason) if isinstance(each.outcome, Cancelled) else each.outcome
            for each in settlements
            if each.ticket_id in committed.settled and isinstance(each.outcome, Answered | Dead | Cancelled)
            for task_id in (each.ticket_id, *committed.aliases.get(each.ticket_id, ()))
        }
        final |= {
            task_id: Dead(why)
            for ticket_id, why in committed.cancelled.items()
            for task_id in (ticket_id, *committed.aliases.get(ticket_id, ()))
        }
        if final:
            results.store(final)
