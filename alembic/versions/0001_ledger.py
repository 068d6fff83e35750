"""The ledger: tickets and what became of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(36)
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    _tickets()
    _what_became_of_them()
    _what_came_besides()
    _who_takes_part()


def downgrade() -> None:
    for table in (
        "backfills",
        "api_keys",
        "duties",
        "workers",
        "strays",
        "aliases",
        "answers",
        "attempts",
        "history",
        "conversations",
        "tickets",
    ):
        op.drop_table(table)


def _tickets() -> None:
    op.create_table(
        "tickets",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("external_id", sa.String(200), nullable=False),
        sa.Column("revision", sa.String(64), nullable=False),
        sa.Column("conversation", sa.String(200), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("priority", sa.SmallInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("state", sa.String(9), nullable=False),
        sa.Column("delivery", sa.Integer, nullable=False),
        sa.Column("starts", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(200), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column("due_at", TIME),
        sa.Column("published_at", TIME),
        sa.Column("settled_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_tickets"),
        sa.UniqueConstraint("tenant", "source", "external_id", "revision", name="uq_tickets_idempotency"),
    )
    unpublished = sa.text("published_at IS NULL AND due_at IS NOT NULL")
    op.create_index(
        "ix_tickets_outbox",
        "tickets",
        ["priority", "due_at"],
        sqlite_where=unpublished,
        postgresql_where=unpublished,
    )
    op.create_index("ix_tickets_state", "tickets", ["state", "priority", "id"])
    in_conversation = sa.text("conversation != ''")
    op.create_index(
        "ix_tickets_conversation",
        "tickets",
        ["tenant", "conversation", "sequence"],
        sqlite_where=in_conversation,
        postgresql_where=in_conversation,
    )
    op.create_table(
        "conversations",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("last_sequence", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_conversations"),
    )


def _what_became_of_them() -> None:
    op.create_table(
        "history",
        sa.Column("id", COUNTER, autoincrement=True, nullable=False),
        sa.Column("ticket_id", ID, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("before", sa.String(9), nullable=False),
        sa.Column("after", sa.String(9), nullable=False),
        sa.Column("delivery", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("worker", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_history"),
    )
    op.create_index("ix_history_ticket_id", "history", ["ticket_id"])
    op.create_table(
        "attempts",
        sa.Column("id", COUNTER, autoincrement=True, nullable=False),
        sa.Column("ticket_id", ID, nullable=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME, nullable=False),
        sa.Column("worker", sa.String(200), nullable=False),
        sa.Column("batch", sa.String(36), nullable=False),
        sa.Column("batch_size", sa.Integer, nullable=False),
        sa.Column("outcome", sa.String(9), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index("ix_attempts_ticket_id", "attempts", ["ticket_id"])
    op.create_table(
        "answers",
        sa.Column("ticket_id", ID, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("ticket_id", name="pk_answers"),
        sa.ForeignKeyConstraint(["ticket_id"], ["tickets.id"], name="fk_answers_ticket_id"),
    )


def _what_came_besides() -> None:
    op.create_table(
        "aliases",
        sa.Column("task_id", sa.String(200), nullable=False),
        sa.Column("ticket_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_aliases"),
    )
    op.create_index("ix_aliases_ticket_id", "aliases", ["ticket_id"])
    op.create_table(
        "strays",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("queue", sa.String(200), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("headers", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_strays"),
    )


def _who_takes_part() -> None:
    op.create_table(
        "workers",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("seen_at", TIME, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("model", sa.String(400), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_workers"),
    )
    op.create_table(
        "duties",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("holder", sa.String(200), nullable=False),
        sa.Column("until", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_duties"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("revoked_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
    )
    op.create_table(
        "backfills",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("file", sa.String(400), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("rows_read", sa.Integer, nullable=False),
        sa.Column("rows_new", sa.Integer, nullable=False),
        sa.Column("rows_refused", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_backfills"),
    )
