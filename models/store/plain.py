"""What is known of the database without SQLAlchemy: for who reads it before that is imported.

The tables are `models.tables`; a test compares.
"""

from __future__ import annotations

from typing import Final

HEAD_REVISION: Final = "0005"
"""The newest migration. A new database is stamped with it."""

ERASE: Final = "store.erase"
"""The setting that tells that something was deleted for good and may still be in a file."""

MESSAGE_COLUMNS: Final = (
    "id",
    "role",
    "state",
    "created_us",
    "is_pinned",
    "trashed_us",
    "stop_reason",
    "error",
    "seed",
    "weights_name",
    "weights_hash",
    "settings",
    "counts",
    "content",
    "reasoning",
    "token_ids",
)
"""What a message is read from; the rendered prompt, which may be large, only on its own."""

PATH_SQL: Final = f"""
WITH RECURSIVE path(row_id, parent_row_id, height) AS (
    SELECT row_id, parent_row_id, 0 FROM message WHERE row_id = :leaf
    UNION ALL
    SELECT m.row_id, m.parent_row_id, path.height + 1
    FROM path JOIN message AS m ON m.row_id = path.parent_row_id
    LIMIT :bound
)
SELECT {", ".join(f"m.{name}" for name in MESSAGE_COLUMNS)},
    (SELECT count(*) FROM message AS s WHERE s.conversation_row_id = m.conversation_row_id
        AND s.parent_row_id IS m.parent_row_id AND s.trashed_us IS NULL
        AND s.row_id < m.row_id) AS sibling_index,
    (SELECT count(*) FROM message AS s WHERE s.conversation_row_id = m.conversation_row_id
        AND s.parent_row_id IS m.parent_row_id AND s.trashed_us IS NULL) AS sibling_count,
    path.height
FROM path JOIN message AS m ON m.row_id = path.row_id
"""
"""The path that ends with the row `:leaf`, at most `:bound` messages of it, in any order:
`MESSAGE_COLUMNS`, which version it is of how many, and how far it is from the leaf."""
