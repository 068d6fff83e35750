"""Answers that were given before to the same question, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from schemas.answer import Answer
from schemas.outcome import Answered, Parked
from schemas.tables import ASKED, answers
from workers.ports import Settlement

_answer = msgspec.json.Decoder(Answer)
_GIVEN = (
    sa.select(answers.c.ticket_id, answers.c.at, answers.c.document)
    .where(answers.c.asked == sa.bindparam("asked"), ASKED, answers.c.at >= sa.bindparam("since"))
    .order_by(answers.c.at.desc())
    .limit(1)
)


class GivenBefore:
    """Finds them.

    Args:
        oldest: an answer older than this is not given again; zero: none is.
    """

    def __init__(self, oldest: timedelta) -> None:
        self._oldest = oldest

    def look(self, connection: Connection, settlements: Sequence[Settlement], now: datetime) -> dict[str, Answered]:
        """Answers for tickets that are to be parked but ask what was answered before, by ticket id."""
        found: dict[str, Answered] = {}
        for each in settlements:
            outcome = each.outcome
            if isinstance(outcome, Parked) and outcome.asked and self._oldest:
                row = connection.execute(_GIVEN, {"asked": outcome.asked, "since": now - self._oldest}).one_or_none()
                if row is not None:
                    answer = msgspec.structs.replace(
                        _answer.decode(row.document),
                        cached_from=row.ticket_id,
                        cached_age_s=max(0.0, (now - row.at).total_seconds()),
                        batch="",
                        batch_size=1,
                    )
                    found[each.ticket_id] = Answered(answer)
        return found
