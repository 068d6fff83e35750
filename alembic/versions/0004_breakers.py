"""Breakers that the fleet shares, whom a parked ticket waits for, and what an answer was asked with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "breakers",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.Column("mode", sa.String(9), nullable=False),
        sa.Column("until", TIME),
        sa.Column("probe", sa.String(200), nullable=False),
        sa.Column("times", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("cool_until", TIME),
        sa.PrimaryKeyConstraint("name", name="pk_breakers"),
    )
    op.add_column("tickets", sa.Column("upstream", sa.String(64), nullable=False, server_default=""))
    op.add_column("answers", sa.Column("asked", sa.String(64), nullable=False, server_default=""))
    parked = sa.text("upstream != ''")
    op.create_index(
        "ix_tickets_parked", "tickets", ["upstream", "priority", "id"], sqlite_where=parked, postgresql_where=parked
    )
    filled = sa.text("asked != ''")
    op.create_index("ix_answers_asked", "answers", ["asked", "at"], sqlite_where=filled, postgresql_where=filled)


def downgrade() -> None:
    op.drop_index("ix_answers_asked", "answers")
    with op.batch_alter_table("answers") as answers:
        answers.drop_column("asked")
    op.drop_index("ix_tickets_parked", "tickets")
    with op.batch_alter_table("tickets") as tickets:
        tickets.drop_column("upstream")
    op.drop_table("breakers")
