"""What is said of a picture or a sound."""

from __future__ import annotations

from app.amounts import bytes_words
from models.records import Attachment


def size_words(attachment: Attachment) -> str:
    """How large it is: a picture in pixels, a sound in time, all else in bytes.

    >>> from dataclasses import replace
    >>> from datetime import datetime
    >>> a = Attachment("a", "c", "b", "", 9, datetime(2026, 1, 1), kind="picture")
    >>> size_words(replace(a, details={"width": 1536, "height": 1024}))
    '1,536 × 1,024'
    >>> size_words(replace(a, kind="audio", details={"seconds": 74.6}))
    '1:15'
    """
    details = attachment.details
    match attachment.kind, details.get("width"), details.get("height"), details.get("seconds"):
        case "picture", int(width), int(height), _:
            return f"{width:,} × {height:,}"
        case "audio", _, _, int(seconds) | float(seconds):
            return f"{round(seconds) // 60}:{round(seconds) % 60:02}"
    return bytes_words(attachment.size_bytes)
