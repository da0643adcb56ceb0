"""The context policies under the names that people read, in the order in which they are offered."""

from __future__ import annotations

from typing import Final

POLICIES: Final = (
    ("drop_oldest", "Drop oldest messages"),
    ("keep_ends", "Drop the middle"),
    ("summarize", "Summarize oldest messages"),
    ("stop", "Stop with a message"),
)


def policy_name(value: object) -> str:
    """
    >>> policy_name("keep_ends"), policy_name("of a newer version")
    ('Drop the middle', 'of a newer version')
    """
    return dict(POLICIES).get(str(value), str(value))
