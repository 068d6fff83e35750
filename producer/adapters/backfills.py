"""Which backfills there were, in SQL."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from schemas.ledger import new_id, writing
from schemas.tables import backfills


class SqlBackfills:
    """Notes of backfills, for those who ask what was put in and when."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(self, tenant: str, file: str, now: datetime) -> str:
        """Notes that one has begun; returns its id."""
        backfill_id = new_id(now)
        counts = {"rows_read": 0, "rows_new": 0, "rows_refused": 0}
        begun = {"id": backfill_id, "tenant": tenant, "file": file[-400:], "started_at": now}
        with writing(self._engine) as connection:
            connection.execute(sa.insert(backfills).values(begun | counts))
        return backfill_id

    def end(self, backfill_id: str, *, read: int, new: int, refused: int, now: datetime) -> None:
        """Notes how it ended. One without an end was broken off."""
        counts = {"rows_read": read, "rows_new": new, "rows_refused": refused}
        with writing(self._engine) as connection:
            connection.execute(
                sa.update(backfills).where(backfills.c.id == backfill_id).values(counts | {"ended_at": now})
            )
