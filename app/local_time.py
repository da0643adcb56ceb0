"""Times as the clock on the wall has them."""

from __future__ import annotations

from datetime import datetime


def here(time: datetime) -> datetime:
    """In this computer's time zone; one that was brought along may have no time there (the last
    hours of the year 9999; on Windows those before 1970)."""
    try:
        return time.astimezone()
    except (OverflowError, OSError, ValueError):
        return time
