"""folders, presets, attachments, settings of conversations and weights, deleted messages

`message`, `conversation` and `weights` are built anew, so that their columns stand where
`models.tables` has them: a message's rendered prompt, which may be large, has to be the last
one. The search index has no content of its own and refers to row keys, which stay; only the
triggers go with their table and are made again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_TRIGGERS = (
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
    _build_anew("conversation", _conversation())
    op.create_index("ix_conversation_updated_us", "conversation", ["updated_us"])
    _build_anew("message", _message())
    op.create_index(
        "ix_message_tree", "message", ["conversation_row_id", "parent_row_id", "trashed_us"]
    )
    _create_partial_index("ix_message_trashed", "trashed_us", "trashed_us IS NOT NULL")
    _create_partial_index("ix_message_streaming", "state", "state = 'streaming'")
    op.create_index("ix_message_parent_row_id", "message", ["parent_row_id"])
    _build_anew("weights", _weights())
    _create_folder()
    _create_attachment()
    _create_preset()
    for statement in _TRIGGERS:
        op.execute(statement)


def _build_anew(table: str, columns: list[sa.schema.SchemaItem]) -> None:
    """The table with these columns, and in them what the old one had in its own.

    A row key is never used twice, also not that of a row that is gone: so the counter goes
    along too.
    """
    bind = op.get_bind()
    known = [row[1] for row in bind.exec_driver_sql(f"PRAGMA table_info({table})")]
    has_counter = "row_id" in known
    op.create_table(f"new_{table}", *columns, sqlite_autoincrement=has_counter)
    names = ", ".join(known)
    op.execute(f"INSERT INTO new_{table} ({names}) SELECT {names} FROM {table}")
    if has_counter:
        op.execute(f"DELETE FROM sqlite_sequence WHERE name = 'new_{table}'")
        op.execute(
            "INSERT INTO sqlite_sequence (name, seq) "
            f"SELECT 'new_{table}', seq FROM sqlite_sequence WHERE name = '{table}'"
        )
    op.drop_table(table)
    op.rename_table(f"new_{table}", table)


def _create_partial_index(name: str, column: str, condition: str) -> None:
    op.create_index(name, "message", [column], sqlite_where=sa.text(condition))


def _conversation() -> list[sa.schema.SchemaItem]:
    return [
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
        sa.Column("settings", sa.String()),
        sa.Column("copied_from", sa.String()),
        sa.UniqueConstraint("id", name="uq_conversation_id"),
    ]


def _message() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("row_id", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("conversation_row_id", sa.Integer(), nullable=False),
        sa.Column("parent_row_id", sa.Integer()),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_us", sa.Integer(), nullable=False),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("trashed_us", sa.Integer()),
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
    ]


def _weights() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("last_used_us", sa.Integer()),
        sa.Column("fast_hash", sa.String()),
        sa.Column("sha256", sa.String()),
        sa.Column("settings", sa.String()),
        sa.PrimaryKeyConstraint("path", name="pk_weights"),
    ]


def _create_folder() -> None:
    op.create_table(
        "folder",
        sa.Column("row_id", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String()),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("created_us", sa.Integer(), nullable=False),
        sa.UniqueConstraint("id", name="uq_folder_id"),
        sqlite_autoincrement=True,
    )


def _create_attachment() -> None:
    op.create_table(
        "attachment",
        sa.Column("row_id", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("conversation_row_id", sa.Integer(), nullable=False),
        sa.Column("message_row_id", sa.Integer()),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer()),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("created_us", sa.Integer(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.UniqueConstraint("id", name="uq_attachment_id"),
        sa.ForeignKeyConstraint(
            ["conversation_row_id"],
            ["conversation.row_id"],
            name="fk_attachment_conversation_row_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["message_row_id"],
            ["message.row_id"],
            name="fk_attachment_message_row_id",
            ondelete="CASCADE",
        ),
        sqlite_autoincrement=True,
    )
    for column in ("conversation_row_id", "message_row_id"):
        op.create_index(f"ix_attachment_{column}", "attachment", [column])


def _create_preset() -> None:
    op.create_table(
        "preset",
        sa.Column("row_id", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("created_us", sa.Integer(), nullable=False),
        sa.Column("updated_us", sa.Integer(), nullable=False),
        sa.UniqueConstraint("id", name="uq_preset_id"),
        sa.UniqueConstraint("name", name="uq_preset_name"),
        sqlite_autoincrement=True,
    )
