"""The ledger's tables. Alembic migrates to exactly these; a test compares the two."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Dialect


class Utc(sa.types.TypeDecorator[datetime]):
    """An aware UTC time; SQLite keeps no zone, so it is put back on the way out."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_ID = sa.String(36)
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

tickets = sa.Table(
    "tickets",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("tenant", sa.String(64), nullable=False),
    sa.Column("source", sa.String(64), nullable=False),
    sa.Column("external_id", sa.String(200), nullable=False),
    sa.Column("revision", sa.String(64), nullable=False),
    sa.Column("conversation", sa.String(200), nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("job", sa.String(64), nullable=False),
    sa.Column("priority", sa.SmallInteger, nullable=False),
    sa.Column("document", sa.Text, nullable=False, doc="the whole ticket as JSON"),
    sa.Column("state", sa.String(9), nullable=False),
    sa.Column("delivery", sa.Integer, nullable=False, doc="number of the delivery that is valid now"),
    sa.Column("starts", sa.Integer, nullable=False, doc="times a worker began; fences a late commit"),
    sa.Column("worker", sa.String(200), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("received_at", Utc, nullable=False),
    sa.Column("due_at", Utc, doc="when to publish; NULL while an earlier ticket of the conversation is open"),
    sa.Column("published_at", Utc),
    sa.Column("settled_at", Utc),
    sa.Column(
        "upstream", sa.String(64), nullable=False, server_default="", doc="whose recovery a parked one waits for"
    ),
    sa.Column("spent", sa.Integer, nullable=False, server_default="0", doc="starts before a person queued it again"),
    sa.UniqueConstraint("tenant", "source", "external_id", "revision", name="uq_tickets_idempotency"),
)
sa.Index(
    "ix_tickets_outbox",
    tickets.c.priority,
    tickets.c.tenant,
    tickets.c.due_at,
    sqlite_where=sa.and_(tickets.c.published_at.is_(None), tickets.c.due_at.is_not(None)),
    postgresql_where=sa.and_(tickets.c.published_at.is_(None), tickets.c.due_at.is_not(None)),
)
sa.Index("ix_tickets_state", tickets.c.state, tickets.c.priority, tickets.c.id)
IN_CONVERSATION = sa.text("conversation != ''")
"""What a query must say word for word to use the index on conversations: no database proves it from a parameter."""

sa.Index(
    "ix_tickets_conversation",
    tickets.c.tenant,
    tickets.c.conversation,
    tickets.c.sequence,
    sqlite_where=IN_CONVERSATION,
    postgresql_where=IN_CONVERSATION,
)

PARKED = sa.text("upstream != ''")
"""The same for the index on parked tickets."""

sa.Index(
    "ix_tickets_parked",
    tickets.c.upstream,
    tickets.c.priority,
    tickets.c.id,
    sqlite_where=PARKED,
    postgresql_where=PARKED,
)

conversations = sa.Table(
    "conversations",
    metadata,
    sa.Column("tenant", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("last_sequence", sa.Integer, nullable=False),
)

history = sa.Table(
    "history",
    metadata,
    sa.Column("id", _BIG, primary_key=True, autoincrement=True),
    sa.Column("ticket_id", _ID, nullable=False, index=True),
    sa.Column("at", Utc, nullable=False),
    sa.Column("before", sa.String(9), nullable=False),
    sa.Column("after", sa.String(9), nullable=False),
    sa.Column("delivery", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("worker", sa.String(200), nullable=False),
)

verdicts = sa.Table(
    "verdicts",
    metadata,
    sa.Column("id", _BIG, primary_key=True, autoincrement=True),
    sa.Column("at", Utc, nullable=False),
    sa.Column("ticket_id", _ID, nullable=False, index=True, doc="no ticket has it where the verdict was to throttle"),
    sa.Column("tenant", sa.String(64), nullable=False),
    sa.Column("source", sa.String(64), nullable=False),
    sa.Column("action", sa.String(8), nullable=False),
    sa.Column("code", sa.String(10), nullable=False),
    sa.Column("reasons", sa.Text, nullable=False, doc="a JSON list of sentences"),
    sa.Column("scores", sa.Text, nullable=False, doc="a JSON object of numbers"),
    sa.Column("retry_after_s", sa.Float),
)

verdict_counts = sa.Table(
    "verdict_counts",
    metadata,
    sa.Column("hour", Utc, primary_key=True, doc="its beginning"),
    sa.Column("tenant", sa.String(64), primary_key=True),
    sa.Column("action", sa.String(8), primary_key=True),
    sa.Column("code", sa.String(10), primary_key=True),
    sa.Column("count", _BIG, nullable=False),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("id", _BIG, primary_key=True, autoincrement=True),
    sa.Column("ticket_id", _ID, nullable=False, index=True),
    sa.Column("start", sa.Integer, nullable=False),
    sa.Column("started_at", Utc, nullable=False),
    sa.Column("ended_at", Utc, nullable=False),
    sa.Column("worker", sa.String(200), nullable=False),
    sa.Column("batch", sa.String(36), nullable=False),
    sa.Column("batch_size", sa.Integer, nullable=False),
    sa.Column("outcome", sa.String(9), nullable=False),
    sa.Column("error", sa.Text, nullable=False),
)

answers = sa.Table(
    "answers",
    metadata,
    sa.Column("ticket_id", _ID, sa.ForeignKey("tickets.id"), primary_key=True),
    sa.Column("at", Utc, nullable=False),
    sa.Column("document", sa.Text, nullable=False, doc="the whole answer as JSON"),
    sa.Column(
        "asked", sa.String(64), nullable=False, server_default="", doc="digest of what was asked; empty: not kept"
    ),
    sa.Column("kin", sa.String(64), nullable=False, server_default="", doc="digest of all but the ticket's own words"),
    sa.Column("vector", sa.LargeBinary, doc="of those words, as float16"),
)
KIN = sa.text("kin != ''")
ASKED = sa.text("asked != ''")
"""The same for the indexes on what was asked."""

sa.Index("ix_answers_kin", answers.c.kin, answers.c.at, sqlite_where=KIN, postgresql_where=KIN)

sa.Index(
    "ix_answers_asked",
    answers.c.asked,
    answers.c.at,
    sqlite_where=ASKED,
    postgresql_where=ASKED,
)

aliases = sa.Table(
    "aliases",
    metadata,
    sa.Column("task_id", sa.String(200), primary_key=True),
    sa.Column("ticket_id", _ID, nullable=False, index=True),
)

strays = sa.Table(
    "strays",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("at", Utc, nullable=False),
    sa.Column("queue", sa.String(200), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("headers", sa.LargeBinary, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("started_at", Utc, nullable=False),
    sa.Column("seen_at", Utc, nullable=False),
    sa.Column("slots", sa.Integer, nullable=False),
    sa.Column("model", sa.String(400), nullable=False),
)

duties = sa.Table(
    "duties",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("holder", sa.String(200), nullable=False),
    sa.Column("until", Utc, nullable=False, doc="free for anyone after this"),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("tenant", sa.String(64), nullable=False),
    sa.Column("label", sa.String(200), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False, unique=True, doc="SHA-256 of the key; the key is never kept"),
    sa.Column("created_at", Utc, nullable=False),
    sa.Column("revoked_at", Utc),
    sa.Column("role", sa.String(8), nullable=False, server_default="sender"),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True, doc="SHA-256 of the cookie; the cookie is never kept"),
    sa.Column("key_id", _ID, nullable=False),
    sa.Column("until", Utc, nullable=False),
)

claims = sa.Table(
    "claims",
    metadata,
    sa.Column("ticket_id", _ID, primary_key=True),
    sa.Column("reviewer", _ID, nullable=False, doc="whose it is until then: the id of a key"),
    sa.Column("until", Utc, nullable=False, doc="free for anyone after this"),
)

reviews = sa.Table(
    "reviews",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("ticket_id", _ID, nullable=False, index=True),
    sa.Column("tenant", sa.String(64), nullable=False),
    sa.Column("at", Utc, nullable=False),
    sa.Column("reviewer", _ID, nullable=False, doc="the id of a key"),
    sa.Column("step", sa.String(6), nullable=False, doc="accept, reject, skip or note"),
    sa.Column("reason", sa.String(12), nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("was", sa.String(9), nullable=False, doc="the ticket's state when it was decided"),
    sa.Column("delivery", sa.Integer, nullable=False, doc="the ticket's valid delivery after it"),
    sa.Column("edited", sa.Text, nullable=False, doc="the document before an edit; empty where there was none"),
    sa.Column("sampled", sa.Boolean, nullable=False, doc="somebody else is asked for a second opinion"),
    sa.Column("first", _ID, nullable=False, doc="for a second opinion: the decision it is about; else empty"),
    sa.Column("undone_at", Utc),
    sa.Index("ix_reviews_reviewer", "reviewer", "id"),
)
"""What people said of tickets, one row each time. The gate learns from it so: rows whose ``step`` is accept or reject
and whose ``undone_at`` is empty, joined with ``verdicts`` by ``ticket_id`` for what the gate had measured and with
``tickets`` for the text (``edited`` where that is not empty: it is what the customer sent). ``was`` = rejected marks
the sample of rejected traffic, from which the share of honest tickets lost is estimated."""

breakers = sa.Table(
    "breakers",
    metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("since", Utc, nullable=False),
    sa.Column("mode", sa.String(9), nullable=False),
    sa.Column("until", Utc),
    sa.Column("probe", sa.String(200), nullable=False),
    sa.Column("times", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("cool_until", Utc),
)

backfills = sa.Table(
    "backfills",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("tenant", sa.String(64), nullable=False),
    sa.Column("file", sa.String(400), nullable=False),
    sa.Column("started_at", Utc, nullable=False),
    sa.Column("ended_at", Utc),
    sa.Column("rows_read", sa.Integer, nullable=False),
    sa.Column("rows_new", sa.Integer, nullable=False),
    sa.Column("rows_refused", sa.Integer, nullable=False),
)
