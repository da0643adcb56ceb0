"""Under which heading a conversation stands in the list. Pure; no Qt.

`group_conversations` keeps the order that it is given (the store's: pinned first, then the
newest activity) and never drops one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from models.records import Conversation

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def group_name(conversation: Conversation, now: datetime) -> str:
    """The heading for one conversation, by the calendar days of `now`'s time zone."""
    if conversation.is_pinned:
        return "Pinned"
    day = conversation.updated_at.astimezone(now.tzinfo).date()
    age = now.date() - day
    if age <= timedelta(days=0):
        return "Today"
    if age == timedelta(days=1):
        return "Yesterday"
    if age < timedelta(days=7):
        return "Last 7 days"
    if age < timedelta(days=30):
        return "Last 30 days"
    return f"{MONTHS[day.month - 1]} {day.year}"


def group_conversations(
    conversations: Iterable[Conversation], now: datetime
) -> list[tuple[str, list[Conversation]]]:
    """Headings in the order of their first conversation, each with its conversations."""
    groups: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        groups.setdefault(group_name(conversation, now), []).append(conversation)
    return list(groups.items())


def matches(conversation: Conversation, needle: str) -> bool:
    """Whether each word of `needle` is in the title, whatever the case."""
    title = conversation.title.casefold()
    return all(word in title for word in needle.casefold().split())
