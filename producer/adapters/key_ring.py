"""The API keys, in SQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from producer.adapters.review_lists import shown_label
from producer.ports import Key
from schemas.errors import NotFound
from schemas.ledger import new_id, reading, writing
from schemas.review import Holder, Role
from schemas.tables import api_keys, sessions


class SqlKeyRing:
    """Whose key is whose."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, tenant: str, label: str, digest: str, now: datetime, role: Role = Role.SENDER) -> Key:
        """Notes a key by its digest."""
        key = Key(id=new_id(now), tenant=tenant, label=label, role=role, created_at=now)
        with writing(self._engine) as connection:
            row = {"id": key.id, "tenant": tenant, "label": label, "digest": digest, "created_at": now}
            connection.execute(sa.insert(api_keys).values(row | {"role": role.value}))
        return key

    def revoke(self, key_id: str, now: datetime) -> None:
        """Ends a key; raises NotFound where there is none with that id. One revoked before stays as it was."""
        with writing(self._engine) as connection:
            ended = sa.func.coalesce(api_keys.c.revoked_at, sa.bindparam("now", type_=api_keys.c.revoked_at.type))
            done = connection.execute(
                sa.update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=ended), {"now": now}
            )
            if not done.rowcount:
                raise NotFound("key", key_id)

    def listed(self) -> list[Key]:
        """Every key that was ever made, the oldest first."""
        columns = (api_keys.c[name] for name in Key.__struct_fields__)
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(*columns).order_by(api_keys.c.id)).mappings()
            return [_key(dict(row)) for row in rows]

    def tenant_of(self, digest: str) -> str | None:
        """Whose key has this digest, if it is one to send with; None if nobody's, revoked, or a reviewer's."""
        holder = self.holder(digest)
        return holder.tenant if holder and holder.role.sends else None

    def holder(self, digest: str) -> Holder | None:
        """Who holds the key with this digest; None if nobody, or revoked."""
        with reading(self._engine) as connection:
            return _holder(connection.execute(_HOLDER.where(api_keys.c.digest == digest)).mappings().one_or_none())

    def begin_session(self, digest: str, holder: Holder, until: datetime, now: datetime) -> None:
        """Notes by its digest that somebody is signed in until then; forgets whose time is over."""
        with writing(self._engine) as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.until <= now))
            connection.execute(sa.insert(sessions).values(digest=digest, key_id=holder.id, until=until))

    def in_session(self, digest: str, now: datetime) -> Holder | None:
        """Who is signed in so; None once the time is over, the session ended or the key revoked."""
        wanted = _HOLDER.join(sessions, sessions.c.key_id == api_keys.c.id)
        with reading(self._engine) as connection:
            mine = wanted.where(sessions.c.digest == digest, sessions.c.until > now)
            return _holder(connection.execute(mine).mappings().one_or_none())

    def end_session(self, digest: str) -> None:
        """Signs out."""
        with writing(self._engine) as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.digest == digest))


def _key(row: dict[str, Any]) -> Key:
    row["role"] = Role(row["role"])
    return Key(**row)


_HOLDER = sa.select(api_keys.c.id, api_keys.c.tenant, api_keys.c.label, api_keys.c.role).where(
    api_keys.c.revoked_at.is_(None)
)


def _holder(row: sa.RowMapping | None) -> Holder | None:
    if row is None:
        return None
    label = shown_label(row["id"], row["label"])
    return Holder(id=row["id"], tenant=row["tenant"], label=label, role=Role(row["role"]))
