"""Search over titles and messages, through the index (`models.search_index`).

Newest first with a limit, not by relevance: the index yields rows from the newest on and
stops at the limit, while ranking would look at every match of a frequent word.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Connection, Row, text

from models.mapping import from_us
from models.records import Role, SearchHit
from models.search_index import pieces, query_for

_TITLES = text(
    """
    SELECT c.id AS conversation_id, c.title, c.updated_us AS created_us
    FROM conversation_search AS s JOIN conversation AS c ON c.row_id = s.rowid
    WHERE conversation_search MATCH :query AND c.trashed_us IS NULL
    ORDER BY s.rowid DESC LIMIT :limit
    """
)
_MESSAGES = text(
    """
    SELECT m.id AS message_id, m.role, m.created_us, m.content, m.reasoning,
        c.id AS conversation_id, c.title
    FROM message_search AS s
    JOIN message AS m ON m.row_id = s.rowid
    JOIN conversation AS c ON c.row_id = m.conversation_row_id
    WHERE message_search MATCH :query AND c.trashed_us IS NULL
    ORDER BY s.rowid DESC LIMIT :limit
    """
)
_BEFORE, _LENGTH = 40, 160


def find(connection: Connection, typed: str, limit: int) -> tuple[SearchHit, ...]:
    """Titles first, then messages; at most `limit` of each."""
    query = query_for(typed)
    if not query or limit <= 0:
        return ()
    bound = {"query": query, "limit": limit}
    titles = [_title_hit(row) for row in connection.execute(_TITLES, bound)]
    messages = [_message_hit(row, typed) for row in connection.execute(_MESSAGES, bound)]
    return (*titles, *messages)


def snippet(content: str, typed: str) -> str:
    """About a line of the text around the first place where one of the pieces stands."""
    places = [re.search(re.escape(piece), content, re.IGNORECASE) for piece in pieces(typed)]
    first = min((place.start() for place in places if place), default=0)
    start = max(0, first - _BEFORE)
    cut = content[start : start + _LENGTH].replace("\0", " ")
    line = " ".join(cut.split())
    end = "…" if start + _LENGTH < len(content) else ""
    return f"{'…' if start else ''}{line}{end}"


def _title_hit(row: Row[Any]) -> SearchHit:
    return SearchHit(
        conversation_id=row.conversation_id,
        conversation_title=row.title,
        created_at=from_us(row.created_us),
        snippet=row.title,
    )


def _message_hit(row: Row[Any], typed: str) -> SearchHit:
    in_content = any(p.casefold() in row.content.casefold() for p in pieces(typed))
    return SearchHit(
        conversation_id=row.conversation_id,
        conversation_title=row.title,
        created_at=from_us(row.created_us),
        message_id=row.message_id,
        role=Role(row.role) if row.role in set(Role) else None,
        snippet=snippet(row.content if in_content or not row.reasoning else row.reasoning, typed),
    )
