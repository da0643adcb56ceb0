"""first tables: conversations with their trees of messages, traces, weights, settings, search"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_SEARCH = (
    """
    CREATE VIRTUAL TABLE message_search USING fts5(
        content, reasoning, content='', prefix='2 3', tokenize='unicode61 remove_diacritics 2'
    )
    """,
    """
    CREATE VIRTUAL TABLE conversation_search USING fts5(
        title, content='', prefix='2 3', tokenize='unicode61 remove_diacritics 2'
    )
    """,
    """
    CREATE TRIGGER message_search_insert AFTER INSERT ON message
    WHEN new.state <> 'streaming' BEGIN
        INSERT INTO message_search(rowid, content, reasoning)
        VALUES (new.row_id, search_text(new.content), search_text(new.reasoning));
    END
    """,
    """
    CREATE TRIGGER message_search_delete AFTER DELETE ON message
    WHEN old.state <> 'streaming' BEGIN
        INSERT INTO message_search(message_search, rowid, content, reasoning)
        VALUES ('delete', old.row_id, search_text(old.content), search_text(old.reasoning));
    END
    """,
    """
    CREATE TRIGGER message_search_update AFTER UPDATE OF content, reasoning, state ON message
    BEGIN
        INSERT INTO message_search(message_search, rowid, content, reasoning)
        SELECT 'delete', old.row_id, search_text(old.content), search_text(old.reasoning)
        WHERE old.state <> 'streaming';
        INSERT INTO message_search(rowid, content, reasoning)
        SELECT new.row_id, search_text(new.content), search_text(new.reasoning)
        WHERE new.state <> 'streaming';
    END
    """,
    """
    CREATE TRIGGER conversation_search_insert AFTER INSERT ON conversation BEGIN
        INSERT INTO conversation_search(rowid, title)
        VALUES (new.row_id, search_text(new.title));
    END
    """,
    """
    CREATE TRIGGER conversation_search_delete AFTER DELETE ON conversation BEGIN
        INSERT INTO conversation_search(conversation_search, rowid, title)
        VALUES ('delete', old.row_id, search_text(old.title));
    END
    """,
    """
    CREATE TRIGGER conversation_search_update AFTER UPDATE OF title ON conversation BEGIN
        INSERT INTO conversation_search(conversation_search, rowid, title)
        VALUES ('delete', old.row_id, search_text(old.title));
        INSERT INTO conversation_search(rowid, title)
        VALUES (new.row_id, search_text(new.title));
    END
    """,
)


def upgrade() -> None:
    _create_conversation()
    _create_message()
    op.create_table(
        "token_trace",
        sa.Column("message_row_id", sa.Integer(), nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("message_row_id", name="pk_token_trace"),
        sa.ForeignKeyConstraint(
            ["message_row_id"],
            ["message.row_id"],
            name="fk_token_trace_message_row_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "weights",
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("last_used_us", sa.Integer()),
        sa.Column("fast_hash", sa.String()),
        sa.Column("sha256", sa.String()),
        sa.PrimaryKeyConstraint("path", name="pk_weights"),
    )
    op.create_table(
        "setting",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_setting"),
    )
    for statement in _SEARCH:
        op.execute(statement)


def _create_conversation() -> None:
    op.create_table(
        "conversation",
        sa.Column("row_id", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("created_us", sa.Integer(), nullable=False),
        sa.Column("updated_us", sa.Integer(), nullable=False),
        sa.Column("trashed_us", sa.Integer()),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("is_archived", sa.Boolean(), nullable=False),
        sa.Column("is_titled_by_user", sa.Boolean(), nullable=False),
        sa.Column("folder_id", sa.String()),
        sa.Column("preset_id", sa.String()),
        sa.Column("weights_path", sa.String()),
        sa.Column("active_leaf_id", sa.String()),
        sa.Column("system_prompt", sa.String(), nullable=False),
        sa.Column("draft", sa.String(), nullable=False),
        sa.UniqueConstraint("id", name="uq_conversation_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_conversation_updated_us", "conversation", ["updated_us"])


def _create_message() -> None:
    op.create_table(
        "message",
        sa.Column("row_id", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("conversation_row_id", sa.Integer(), nullable=False),
        sa.Column("parent_row_id", sa.Integer()),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_us", sa.Integer(), nullable=False),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("stop_reason", sa.String()),
        sa.Column("error", sa.String()),
        sa.Column("seed", sa.Integer()),
        sa.Column("weights_name", sa.String()),
        sa.Column("weights_hash", sa.String()),
        sa.Column("settings", sa.String()),
        sa.Column("counts", sa.String()),
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("reasoning", sa.String(), nullable=False),
        sa.Column("token_ids", sa.LargeBinary()),
        sa.Column("rendered_prompt", sa.LargeBinary()),
        sa.UniqueConstraint("id", name="uq_message_id"),
        sa.ForeignKeyConstraint(
            ["conversation_row_id"],
            ["conversation.row_id"],
            name="fk_message_conversation_row_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["parent_row_id"],
            ["message.row_id"],
            name="fk_message_parent_row_id",
            deferrable=True,
            initially="DEFERRED",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_message_tree", "message", ["conversation_row_id", "parent_row_id"])
    op.create_index(
        "ix_message_streaming",
        "message",
        ["state"],
        sqlite_where=sa.text("state = 'streaming'"),
    )
    op.create_index("ix_message_parent_row_id", "message", ["parent_row_id"])
