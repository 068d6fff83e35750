"""What people say of tickets, who has one open, and who is signed in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.String(36)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("role", sa.String(8), nullable=False, server_default="sender"))
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("key_id", ID, nullable=False),
        sa.Column("until", TIME, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    op.create_table(
        "claims",
        sa.Column("ticket_id", ID, nullable=False),
        sa.Column("reviewer", ID, nullable=False),
        sa.Column("until", TIME, nullable=False),
        sa.PrimaryKeyConstraint("ticket_id", name="pk_claims"),
    )
    op.create_table(
        "reviews",
        sa.Column("id", ID, nullable=False),
        sa.Column("ticket_id", ID, nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("reviewer", ID, nullable=False),
        sa.Column("step", sa.String(6), nullable=False),
        sa.Column("reason", sa.String(12), nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("was", sa.String(9), nullable=False),
        sa.Column("delivery", sa.Integer, nullable=False),
        sa.Column("edited", sa.Text, nullable=False),
        sa.Column("sampled", sa.Boolean, nullable=False),
        sa.Column("first", ID, nullable=False),
        sa.Column("undone_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_reviews"),
    )
    op.create_index("ix_reviews_ticket_id", "reviews", ["ticket_id"])
    op.create_index("ix_reviews_reviewer", "reviews", ["reviewer", "id"])


def downgrade() -> None:
    for table in ("reviews", "claims", "sessions"):
        op.drop_table(table)
    with op.batch_alter_table("api_keys") as keys:
        keys.drop_column("role")
