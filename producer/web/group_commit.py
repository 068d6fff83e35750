"""Concurrent requests share ledger transactions: the disk is asked to sync once for all that wait together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from producer.intake import Incoming, Intake, TurnedAway
from producer.ports import Receipt
from producer.relay import Tray

Outcomes = list[Receipt | TurnedAway]


class GroupCommit:
    """One thread that writes; whatever comes while it does goes into its next transaction together.

    Args:
        tray: gets what is to be published, once it is durable.
        clock: the time of day.
        most: tickets in one transaction, so that nobody waits long for others.
    """

    def __init__(self, intake: Intake, tray: Tray, clock: Callable[[], datetime], most: int = 1000) -> None:
        self._intake = intake
        self._tray = tray
        self._clock = clock
        self._most = most
        self._waiting: deque[tuple[Sequence[Incoming], asyncio.Future[Outcomes]]] = deque()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="ledger-writer")
        self._writing: asyncio.Task[None] | None = None

    async def take_in(self, incoming: Sequence[Incoming]) -> Outcomes:
        """What became of each, in order, once the ledger has committed.

        Raises:
            LedgerUnavailable: none of them was taken in.
        """
        done: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        self._waiting.append((incoming, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await done

    async def close(self) -> None:
        """Returns once all that waits is written."""
        if self._writing is not None:
            await self._writing
        self._writer.shutdown()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group = self._next_group()
            together = [each for incoming, _ in group for each in incoming]
            try:
                outcomes = await loop.run_in_executor(self._writer, self._take_in, together)
            except Exception as error:  # noqa: BLE001  each waiting request raises it as its own
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
                continue
            start = 0
            for incoming, done in group:
                if not done.done():
                    done.set_result(outcomes[start : start + len(incoming)])
                start += len(incoming)
        self._writing = None

    def _next_group(self) -> list[tuple[Sequence[Incoming], asyncio.Future[Outcomes]]]:
        group = [self._waiting.popleft()]
        count = len(group[0][0])
        while self._waiting and count + len(self._waiting[0][0]) <= self._most:
            group.append(self._waiting.popleft())
            count += len(group[-1][0])
        return group

    def _take_in(self, together: list[Incoming]) -> Outcomes:
        now = self._clock()
        outcomes = self._intake.take_in(together, now)
        self._tray.put([each.stub for each in outcomes if isinstance(each, Receipt) and each.stub is not None], now)
        return outcomes
