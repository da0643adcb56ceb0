"""The trash: when something was thrown away, what of it is due, and deleting it for good.

What must hold:

* What cannot surely be due stays. A clock that was wrong (it fell back to the year 2000 with its
  battery, or jumped ahead) makes nothing due: `see_clock` compares the time at each start and
  end with the one before, and moves the trash along with a jump, so that everything in it is as
  old as it was.
* What was thrown away "before" its own last change has a time that cannot be: it is never
  deleted by itself, and `see_clock` gives it the present time.
* A purge takes no message that is not due itself, whatever it hangs on.
* What is deleted for good leaves the note `ERASE`, in the same transaction: `models.store.erasing`
  then takes it out of every file.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Integer, bindparam, delete, func, select, text, update

from models.mapping import to_us
from models.settings import set_setting
from models.store.plain import ERASE
from models.tables import STAGED_US, ConversationRow, MessageRow, SettingRow

BORN: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""Cutaway is younger, so a clock that says less is wrong."""

SLACK: Final = timedelta(days=1)
"""A clock that is set right by less makes no difference, nor does a reply that ends late."""

CLOCK_SEEN: Final = "store.clock_seen_us"
"""As `ERASE`, a note of the store's own in the table of the settings."""

_BORN_US = to_us(BORN)
_SLACK_US = SLACK // timedelta(microseconds=1)
_AT_ONCE = 500

_LIFT = text(
    """
    WITH RECURSIVE above(row_id, parent_row_id) AS (
        SELECT m.row_id, m.parent_row_id FROM message AS m
        WHERE m.trashed_us IS NOT NULL AND EXISTS (SELECT 1 FROM message AS child
            WHERE child.parent_row_id = m.row_id AND child.trashed_us IS NULL)
        UNION
        SELECT m.row_id, m.parent_row_id FROM above JOIN message AS m
            ON m.row_id = above.parent_row_id
        WHERE m.trashed_us IS NOT NULL
    )
    UPDATE message SET trashed_us = NULL WHERE row_id IN (SELECT row_id FROM above)
    """
)

_DATE_UNSURE = text(
    """
    UPDATE conversation SET trashed_us = :now
    WHERE trashed_us > :staged
        AND (trashed_us < :born OR trashed_us < updated_us - :slack OR trashed_us > :now)
    """
)

_IS_DUE = "trashed_us < :latest AND trashed_us >= :born AND trashed_us >= created_us - :slack"

_PURGE = text(
    f"""
    WITH RECURSIVE kept(row_id) AS (
        SELECT parent_row_id FROM message WHERE trashed_us IS NOT NULL AND NOT ({_IS_DUE})
        UNION
        SELECT m.parent_row_id FROM kept JOIN message AS m ON m.row_id = kept.row_id
        WHERE m.trashed_us IS NOT NULL
    )
    DELETE FROM message WHERE {_IS_DUE}
        AND row_id NOT IN (SELECT row_id FROM kept WHERE row_id IS NOT NULL)
    """
)

_UNSURE_ACTS = text(
    """
    SELECT trashed_us FROM message WHERE trashed_us > :staged GROUP BY trashed_us
    HAVING trashed_us < :born OR trashed_us < max(created_us) - :slack OR trashed_us > :now
    ORDER BY trashed_us
    """
)

_SEEN: Final = select(SettingRow.value).where(SettingRow.name == CLOCK_SEEN)
_OLDEST_DUE: Final = (
    select(ConversationRow.row_id)
    .where(
        ConversationRow.trashed_us < bindparam("latest"),
        ConversationRow.trashed_us >= _BORN_US,
        ConversationRow.trashed_us >= ConversationRow.updated_us - _SLACK_US,
    )
    .order_by(ConversationRow.trashed_us)
    .limit(bindparam("at_most", type_=Integer))
)

# --- throwing away ------------------------------------------------------------------------------


def time_us(connection: Connection) -> int:
    """The time of an act, for the trash: a clock that is behind what it was does not count."""
    return max(to_us(datetime.now(UTC)), _seen_us(connection) or 0)


def throw_away(connection: Connection, ids: Collection[str]) -> None:
    """Conversations go to the trash, all with one time."""
    when = time_us(connection)
    for some in _chunks(ids):
        connection.execute(
            update(ConversationRow).where(ConversationRow.id.in_(some)).values(trashed_us=when)
        )


def lift(connection: Connection) -> int:
    """Bring back what messages that are visible hang on; how many messages that were.

    No act leaves a visible message below a deleted one. Databases of older versions, and what
    was read out of a damaged one, may have such.
    """
    connection.execute(_LIFT)
    return _changes(connection)


# --- the clock ----------------------------------------------------------------------------------


def see_clock(connection: Connection, now: datetime, at_most: timedelta) -> None:
    """Compare the clock with what it last said, and mend the times in the trash.

    at_most: so much of the time since then counts. Whether the app was away for longer or the
    clock jumped cannot be told, and keeping is the mistake that can be mended.
    """
    now_us = to_us(now)
    if now_us < _BORN_US:
        return
    seen_us = _seen_us(connection)
    if seen_us is not None:
        gap = now_us - seen_us
        jump = gap if gap < 0 else max(0, gap - at_most // timedelta(microseconds=1))
        if jump:
            _move(connection, jump)
    _date_again(connection, now_us)
    set_setting(connection, CLOCK_SEEN, str(now_us))


def _move(connection: Connection, jump: int) -> None:
    for table in (ConversationRow, MessageRow):
        connection.execute(
            update(table)
            .where(table.trashed_us >= _BORN_US)
            .values(trashed_us=func.max(table.trashed_us + jump, _BORN_US))
        )


def _date_again(connection: Connection, now_us: int) -> None:
    """Whatever has a time that cannot be was thrown away now. Acts stay apart."""
    bound = {"born": _BORN_US, "now": now_us, "slack": _SLACK_US, "staged": STAGED_US}
    connection.execute(_DATE_UNSURE, bound)
    unsure = connection.scalars(_UNSURE_ACTS, bound).all()
    if not unsure:
        return
    latest = connection.scalar(
        select(func.max(MessageRow.trashed_us)).where(MessageRow.trashed_us.not_in(unsure))
    )
    for when in unsure:
        latest = max(now_us, (latest or 0) + 1)
        connection.execute(
            update(MessageRow).where(MessageRow.trashed_us == when).values(trashed_us=latest)
        )


def _seen_us(connection: Connection) -> int | None:
    value = connection.scalar(_SEEN)
    return int(value) if value is not None and str(value).isdigit() else None


# --- deleting for good --------------------------------------------------------------------------


def purge_some(connection: Connection, older_than: datetime, at_most: int | None = None) -> int:
    """Delete for good the oldest of what was thrown away before that time; how many."""
    bound = {"latest": to_us(older_than), "at_most": -1 if at_most is None else at_most}
    return _delete(connection, connection.scalars(_OLDEST_DUE, bound).all())


def delete_trashed(connection: Connection, ids: Collection[str]) -> int:
    """Delete conversations for good; only what is in the trash; how many that were."""
    found: list[int] = []
    for some in _chunks(ids):
        found += connection.scalars(
            select(ConversationRow.row_id).where(
                ConversationRow.id.in_(some), ConversationRow.trashed_us > STAGED_US
            )
        )
    return _delete(connection, found)


def purge_branches(connection: Connection, older_than: datetime) -> int:
    """Delete for good what was deleted before that time; how many messages."""
    lift(connection)
    bound = {"latest": to_us(older_than), "born": _BORN_US, "slack": _SLACK_US}
    connection.execute(_PURGE, bound)
    return _noted(connection, _changes(connection))


def _delete(connection: Connection, row_ids: Sequence[int]) -> int:
    for some in _chunks(row_ids):
        connection.execute(delete(ConversationRow).where(ConversationRow.row_id.in_(some)))
    return _noted(connection, len(row_ids))


def _changes(connection: Connection) -> int:
    """The driver does not count for statements that begin with WITH."""
    return connection.scalar(text("SELECT changes()")) or 0


def _noted(connection: Connection, count: int) -> int:
    if count:
        note_deletion(connection)
    return count


def note_deletion(connection: Connection) -> None:
    """Something is no longer to be found in any file. Each note is another one, so that erasing
    that is under way begins again."""
    set_setting(connection, ERASE, uuid.uuid4().hex)


def missing(connection: Connection, ids: Collection[str]) -> frozenset[str]:
    """Those of the ids that no conversation and no message has; what is in the trash is there."""
    found: set[str] = set()
    for some in _chunks(ids):
        for table in (ConversationRow, MessageRow):
            found.update(connection.scalars(select(table.id).where(table.id.in_(some))))
    return frozenset(ids) - found


def _chunks(values: Iterable[Any]) -> Iterable[list[Any]]:
    listed = list(values)
    return (listed[i : i + _AT_ONCE] for i in range(0, len(listed), _AT_ONCE))
