"""Breakers in the ledger, where every process of the fleet finds them: on either broker, and after any restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from schemas.breaker import Breaker
from schemas.tables import breakers

_COLUMNS = tuple(breakers.c[name] for name in Breaker.__struct_fields__)


def read_breakers(connection: Connection) -> dict[str, Breaker]:
    """All that ever opened or cooled, by name."""
    rows = connection.execute(sa.select(*_COLUMNS).order_by(breakers.c.name)).mappings()
    return {row["name"]: _breaker(row) for row in rows}


def change_breaker(
    connection: Connection, name: str, now: datetime, change: Callable[[Breaker], Breaker]
) -> tuple[Breaker, Breaker]:
    """Changes one breaker, locked until the transaction ends; returns it before and after."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    fresh = msgspec.structs.asdict(Breaker(name=name, since=now))
    connection.execute(insert(breakers).values(fresh).on_conflict_do_nothing())
    row = connection.execute(sa.select(*_COLUMNS).where(breakers.c.name == name).with_for_update()).mappings().one()
    before = _breaker(row)
    after = change(before)
    if after != before:
        connection.execute(sa.update(breakers).where(breakers.c.name == name).values(msgspec.structs.asdict(after)))
    return before, after


def _breaker(row: Mapping[Any, Any]) -> Breaker:
    return msgspec.convert({str(name): value for name, value in row.items()}, Breaker)
