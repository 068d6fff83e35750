"""The way in for a command that comes and goes: what it takes in it publishes itself, as far as the broker is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

from producer.intake import Incoming, Intake, TurnedAway
from producer.ports import Receipt
from producer.relay import Relay
from schemas.errors import BrokerUnavailable


class Sender:
    """Takes tickets in and publishes them, one chunk behind: while a chunk is written, the one before is on its way.

    Attributes:
        trouble: why the broker could not be told; what is in the ledger is then published by the serving process.
            Known once it is closed.
    """

    def __init__(self, intake: Intake, relay: Relay, clock: Callable[[], datetime]) -> None:
        self.trouble = ""
        self._intake = intake
        self._relay = relay
        self._clock = clock
        self._publisher = ThreadPoolExecutor(1, "publisher")
        self._published: Future[int] | None = None

    def take_in(self, incoming: Sequence[Incoming]) -> list[Receipt | TurnedAway]:
        """What became of each, in order. Those with a receipt are durable.

        Raises:
            LedgerUnavailable: none of them was taken in, or what was taken in before could not be noted as published.
        """
        outcomes = self._intake.take_in(incoming, self._clock())
        self._settle()
        if not self.trouble:
            stubs = [each.stub for each in outcomes if isinstance(each, Receipt) and each.stub is not None]
            self._published = self._publisher.submit(self._relay.hand_over, stubs, self._clock())
        return outcomes

    def close(self) -> None:
        """Publishes what is left and lets go of the broker."""
        try:
            self._settle()
        finally:
            self._publisher.shutdown()
            self._relay.close()

    def _settle(self) -> None:
        """Waits for the chunk that is on its way."""
        published, self._published = self._published, None
        if published is not None:
            try:
                published.result()
            except BrokerUnavailable as error:
                self.trouble = str(error)
