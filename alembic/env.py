"""How Alembic reaches the ledger: the URL that ``ops.migrate`` hands over, or else the settings'."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context
from sqlalchemy.engine import Connection

from producer.adapters.settings_file import read_settings
from schemas.ledger import open_ledger
from schemas.tables import metadata


def run(connection: Connection) -> None:
    """All pending migrations in one transaction: a ledger is never left between two versions."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,
    )
    with context.begin_transaction():
        if connection.dialect.name == "postgresql":
            # Several processes may migrate at once; SQLite's BEGIN IMMEDIATE makes them queue by itself.
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('ticketmill.migrate'))"))
        context.run_migrations()


def main() -> None:
    """Connects and migrates. SQL scripts for a database out of reach (``--sql``) are not offered."""
    if context.is_offline_mode():
        raise SystemExit("ticketmill migrates a ledger it can reach; run without --sql")
    engine = open_ledger(context.config.attributes.get("url") or read_settings().ledger.url)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                # A table that is rebuilt is dropped for a moment; its children must not go with it.
                connection.connection.cursor().execute("PRAGMA foreign_keys=OFF").close()
            run(connection)
    finally:
        engine.dispose()


main()
