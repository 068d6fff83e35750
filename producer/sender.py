"""The way in for a command that comes and goes: what it takes in it publishes itself, as far as the broker is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from producer.intake import Incoming, Intake, TurnedAway
from producer.ports import Receipt
from producer.relay import Relay
from schemas.errors import BrokerUnavailable


class Sender:
    """Takes tickets in and publishes them.

    Attributes:
        trouble: why the broker could not be told; what is in the ledger is then published by the serving process.
    """

    def __init__(self, intake: Intake, relay: Relay, clock: Callable[[], datetime]) -> None:
        self.trouble = ""
        self._intake = intake
        self._relay = relay
        self._clock = clock

    def take_in(self, incoming: Sequence[Incoming]) -> list[Receipt | TurnedAway]:
        """What became of each, in order. Those with a receipt are durable.

        Raises:
            LedgerUnavailable: none of them was taken in.
        """
        outcomes = self._intake.take_in(incoming, self._clock())
        if not self.trouble:
            stubs = [each.stub for each in outcomes if isinstance(each, Receipt) and each.stub is not None]
            try:
                self._relay.hand_over(stubs, self._clock())
            except BrokerUnavailable as error:
                self.trouble = str(error)
        return outcomes

    def close(self) -> None:
        """Lets go of the broker."""
        self._relay.close()
