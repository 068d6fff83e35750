"""What becomes of a ticket that left its slot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from schemas.outcome import Answered, Outcome
from workers.policy.failure import after_failure
from workers.ports import Completed
from workers.slots import Ended


class Ending:
    """Puts the end of a ticket's stay to the failure policy.

    Args:
        most: tries that a ticket is given.
        chance: gives numbers in [0, 1).
    """

    def __init__(self, most: int, chance: Callable[[], float]) -> None:
        self._most = most
        self._chance = chance

    def of(self, ended: Ended, tries: int) -> Outcome:
        """The outcome of what the engine reported; ``tries`` counts this one too."""
        result = ended.result
        if isinstance(result, Completed):
            return Answered(msgspec.structs.replace(result.answer, batch=ended.batch, batch_size=ended.batch_size))
        return self.failed(result.error, result.why, tries, ended.ended_at)

    def failed(self, error: str, why: str, tries: int, now: datetime) -> Outcome:
        """The outcome of a failure, of the kinds that ``workers.ports.Failed`` names, or ``timeout``."""
        return after_failure(error, " ".join(why.split()), tries, self._most, now, self._chance())
