"""What answers were asked for, as vectors, so that one to a question much like it can be given again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("answers", sa.Column("kin", sa.String(64), nullable=False, server_default=""))
    op.add_column("answers", sa.Column("vector", sa.LargeBinary))
    filled = sa.text("kin != ''")
    op.create_index("ix_answers_kin", "answers", ["kin", "at"], sqlite_where=filled, postgresql_where=filled)


def downgrade() -> None:
    op.drop_index("ix_answers_kin", "answers")
    with op.batch_alter_table("answers") as answers:
        answers.drop_column("vector")
        answers.drop_column("kin")
