"""What the gate says of tickets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "verdicts",
        sa.Column("id", COUNTER, autoincrement=True, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("ticket_id", sa.String(36), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("action", sa.String(8), nullable=False),
        sa.Column("code", sa.String(10), nullable=False),
        sa.Column("reasons", sa.Text, nullable=False),
        sa.Column("scores", sa.Text, nullable=False),
        sa.Column("retry_after_s", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_verdicts"),
    )
    op.create_index("ix_verdicts_ticket_id", "verdicts", ["ticket_id"])
    op.create_table(
        "verdict_counts",
        sa.Column("hour", TIME, nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("action", sa.String(8), nullable=False),
        sa.Column("code", sa.String(10), nullable=False),
        sa.Column("count", COUNTER, nullable=False),
        sa.PrimaryKeyConstraint("hour", "tenant", "action", "code", name="pk_verdict_counts"),
    )


def downgrade() -> None:
    op.drop_table("verdict_counts")
    op.drop_table("verdicts")
