"""Answers that were given before to the same question, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from schemas.answer import Answer
from schemas.outcome import Answered, Asked, Parked
from schemas.tables import ASKED, KIN, answers
from workers.ports import Settlement

MOST = 2000
"""The latest answers that a question is compared with."""

_answer = msgspec.json.Decoder(Answer)
_GIVEN = (
    sa.select(answers.c.ticket_id, answers.c.at, answers.c.document)
    .where(answers.c.asked == sa.bindparam("asked"), ASKED, answers.c.at >= sa.bindparam("since"))
    .order_by(answers.c.at.desc())
    .limit(1)
)


_ALIKE = (
    sa.select(answers.c.ticket_id, answers.c.vector)
    .where(answers.c.kin == sa.bindparam("kin"), KIN, answers.c.at >= sa.bindparam("since"))
    .where(answers.c.vector.is_not(None))
    .order_by(answers.c.at.desc())
    .limit(MOST)
)
_ONE = sa.select(answers.c.ticket_id, answers.c.at, answers.c.document).where(answers.c.ticket_id == sa.bindparam("id"))


class GivenBefore:
    """Finds them.

    Args:
        oldest: an answer older than this is not given again.
        alike: how alike two questions must be, 0 to 1, that are not the same; 0: only the same one will do.
    """

    def __init__(self, oldest: timedelta, alike: float) -> None:
        self._oldest = oldest
        self._alike = alike

    def look(self, connection: Connection, settlements: Sequence[Settlement], now: datetime) -> dict[str, Answered]:
        """Answers for tickets that are to be parked but ask what was answered before, by ticket id."""
        found: dict[str, Answered] = {}
        for each in settlements:
            if isinstance(each.outcome, Parked) and each.outcome.asked is not None:
                given = self._given(connection, each.outcome.asked, now)
                if given is not None:
                    found[each.ticket_id] = Answered(given)
        return found

    def _given(self, connection: Connection, asked: Asked, now: datetime) -> Answer | None:
        since = now - self._oldest
        row = connection.execute(_GIVEN, {"asked": asked.digest, "since": since}).one_or_none()
        likeness = None
        if row is None and self._alike and asked.vector:
            nearest, likeness = self._nearest(connection, asked, since)
            row = connection.execute(_ONE, {"id": nearest}).one_or_none() if nearest else None
        if row is None:
            return None
        return msgspec.structs.replace(
            _answer.decode(row.document),
            cached_from=row.ticket_id,
            cached_age_s=max(0.0, (now - row.at).total_seconds()),
            likeness=likeness,
            batch="",
            batch_size=1,
        )

    def _nearest(self, connection: Connection, asked: Asked, since: datetime) -> tuple[str, float]:
        rows = connection.execute(_ALIKE, {"kin": asked.kin, "since": since}).all()
        if not rows:
            return "", 0.0
        vectors = np.frombuffer(b"".join(row.vector for row in rows), np.float16).reshape(len(rows), -1)
        likeness = vectors.astype(np.float32) @ np.frombuffer(asked.vector, np.float16).astype(np.float32)
        best = int(likeness.argmax())
        if likeness[best] < self._alike:
            return "", 0.0
        return rows[best].ticket_id, round(float(min(1.0, likeness[best])), 4)
