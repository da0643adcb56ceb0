"""What is said of a picture or a sound."""

from __future__ import annotations

from app.amounts import bytes_words
from app.chat.attachments.kinds import AUDIO, PICTURE
from app.chat.attachments.media_details import media_details
from models.records import Attachment


def pixels_words(size: tuple[int, int]) -> str:
    width, height = size
    return f"{width:,} × {height:,}"


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
    details = media_details(attachment)
    if attachment.kind == PICTURE and details.size is not None:
        return pixels_words(details.size)
    if attachment.kind == AUDIO and details.seconds is not None:
        minutes, seconds = divmod(round(details.seconds), 60)
        return f"{minutes}:{seconds:02}"
    return bytes_words(attachment.size_bytes)
