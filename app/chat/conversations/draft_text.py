"""A draft as it is stored: what waits in the queue stands before what is in the composer. Pure."""

from __future__ import annotations


def with_queued(draft: str, queued: str) -> str:
    """Both as one text.

    >>> with_queued("half a thought", "first in line")
    'first in line\\n\\nhalf a thought'
    """
    return "\n\n".join(text for text in (queued, draft) if text)


def without_queued(stored: str, queued: str) -> str:
    """What stands in the composer, of a draft as it is stored.

    >>> without_queued("first in line\\n\\nhalf a thought", "first in line")
    'half a thought'
    """
    if not queued or not stored.startswith(queued):
        return stored
    return stored[len(queued) :].removeprefix("\n\n")
