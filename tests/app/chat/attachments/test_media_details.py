"""What an import may say of a picture."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from each import each

from app.chat.attachments.media_details import MediaDetails, Shown, media_details
from models.records import Attachment
from ui.pictures.words import size_words


@each(
    ("details", "found", "words"),
    [
        ({"width": 4, "height": 3, "at": 7}, MediaDetails(4, 3), "4 × 3"),
        ({"shown": {"given": [8, 6], "notes": ["first frame"]}},
         MediaDetails(shown=Shown((8, 6), ("first frame",))), "9 bytes"),
        ({"width": 0, "height": 0}, MediaDetails(0, 0), "9 bytes"),
        ({"width": 10**400, "height": 1}, MediaDetails(), "9 bytes"),
        ({"width": True, "height": -1}, MediaDetails(), "9 bytes"),
        ({"shown": {"given": ["a", None], "notes": [[1]]}}, MediaDetails(), "9 bytes"),
        ({"shown": 7}, MediaDetails(), "9 bytes"),
        ({"seconds": float("nan")}, MediaDetails(), "9 bytes"),
        ({"seconds": 10**400}, MediaDetails(), "9 bytes"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_nothing(details: Any, found: MediaDetails, words: str) -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    picture = Attachment("a", "c", "a.png", "", 9, when, kind="picture", details=details)
    assert media_details(picture) == found
    assert size_words(picture) == words
