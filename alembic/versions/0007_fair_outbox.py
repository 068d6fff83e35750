"""The outbox by tenant, so that one tenant's backlog is not read through for another's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

DUE = sa.text("published_at IS NULL AND due_at IS NOT NULL")


def upgrade() -> None:
    op.drop_index("ix_tickets_outbox", "tickets")
    columns = ["priority", "tenant", "due_at"]
    op.create_index("ix_tickets_outbox", "tickets", columns, sqlite_where=DUE, postgresql_where=DUE)


def downgrade() -> None:
    op.drop_index("ix_tickets_outbox", "tickets")
    op.create_index("ix_tickets_outbox", "tickets", ["priority", "due_at"], sqlite_where=DUE, postgresql_where=DUE)
