"""The API keys, in SQL."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from producer.ports import Key
from schemas.errors import NotFound
from schemas.ledger import new_id, reading, writing
from schemas.tables import api_keys


class SqlKeyRing:
    """Whose key is whose."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, tenant: str, label: str, digest: str, now: datetime) -> Key:
        """Notes a key by its digest."""
        key = Key(id=new_id(now), tenant=tenant, label=label, created_at=now)
        with writing(self._engine) as connection:
            connection.execute(
                sa.insert(api_keys).values(id=key.id, tenant=tenant, label=label, digest=digest, created_at=now)
            )
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
            return [Key(**row) for row in connection.execute(sa.select(*columns).order_by(api_keys.c.id)).mappings()]

    def tenant_of(self, digest: str) -> str | None:
        """Whose key has this digest; None if nobody's or revoked."""
        wanted = sa.select(api_keys.c.tenant).where(api_keys.c.digest == digest, api_keys.c.revoked_at.is_(None))
        with reading(self._engine) as connection:
            return connection.scalars(wanted).one_or_none()
