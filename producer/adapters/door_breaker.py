"""The door's breaker in the ledger, where people see it and may open or close it."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy.engine import Engine

from schemas.breaker import Breaker, Mode, closed, probing, tripped
from schemas.breakers import change_breaker, read_breakers
from schemas.ledger import reading, writing

log = logging.getLogger("ticketmill")


class DoorBreaker:
    """One door's.

    Args:
        name: for instance ``cpu:HOST``.
        lasts: how long it stays open at least.
    """

    def __init__(self, engine: Engine, name: str, lasts: timedelta) -> None:
        self._engine = engine
        self._name = name
        self._lasts = lasts
        self._known: Breaker | None = None

    def by_hand(self) -> bool | None:
        """Whether somebody has opened (True) or closed (False) it since the last look; None if nobody has."""
        with reading(self._engine) as connection:
            found = read_breakers(connection).get(self._name)
        before, self._known = self._known, found
        if found is None or (before is not None and found.since <= before.since):
            return None
        opened = found.mode is not Mode.CLOSED
        return None if before is None and not opened else opened

    def show(self, mode: Mode, reason: str, now: datetime) -> None:
        """Writes down what it is now, if that is news."""
        if (self._known.mode if self._known else Mode.CLOSED) is mode:
            return

        def change(known: Breaker) -> Breaker:
            if mode is Mode.CLOSED:
                return closed(known, now)
            opened = tripped(known, reason, self._lasts, self._lasts, now)
            return probing(opened, self._name, self._lasts, now + self._lasts) if mode is Mode.HALF_OPEN else opened

        with writing(self._engine) as connection:
            before, self._known = change_breaker(connection, self._name, now, change)
        log.warning("breaker %s: %s -> %s %s", self._name, before.mode, mode, reason)
