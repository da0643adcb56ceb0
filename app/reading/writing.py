"""The text of a document as it grows: blocks with an empty line between, and their places."""

from __future__ import annotations

from typing import Final

from app.amounts import bytes_words
from app.reading.document import (
    MAX_PLACES,
    MAX_TEXT_BYTES,
    Document,
    DocumentRefused,
    Place,
    cleaned,
)

_BETWEEN: Final = "\n\n"
_MAX_LABEL: Final = 120


class TextWriter:
    """Raises DocumentRefused as soon as the text is longer than any text that is attached."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._parts: list[str] = []
        self._places: list[Place] = []
        self._length = 0
        self._bytes = 0

    def place(self, label: str, heading: str = "") -> None:
        """What is written from here on is at this place. `heading`: its first words."""
        if len(self._places) >= MAX_PLACES:
            what = f"more than {MAX_PLACES:,} pages or sections"
            sentence = f"“{self._name}” has {what}. Attach only the part that matters."
            raise DocumentRefused("Too many pages", sentence)
        start = self._length + (len(_BETWEEN) if self._length else 0)
        self._places.append(Place(start, " ".join(cleaned(label).split())[:_MAX_LABEL]))
        self.write(heading)

    def write(self, text: str, between: str = _BETWEEN) -> None:
        """A block of its own; nothing where it is empty."""
        text = cleaned(text).rstrip()
        if not text.strip():
            return
        if self._length:
            text = between + text
        self._length += len(text)
        self._bytes += len(text.encode())
        if self._bytes > MAX_TEXT_BYTES:
            raise self._too_long()
        self._parts.append(text)

    def document(self, media_type: str, size_bytes: int, note: str = "") -> Document:
        """What was written. Raises DocumentRefused where that is nothing."""
        text = "".join(self._parts)
        if not text:
            raise no_text(self._name)
        # A place at the very end, of nothing, would lie behind the text.
        places = tuple(place for place in self._places if place.start < len(text))
        return Document(self._name, media_type, text, places, size_bytes, note)

    def _too_long(self) -> DocumentRefused:
        most = bytes_words(MAX_TEXT_BYTES)
        return DocumentRefused(
            f"More text than {most}",
            f"“{self._name}” has more than {most} of text in it. Attach only the part that "
            "matters.",
        )


def no_text(name: str) -> DocumentRefused:
    sentence = f"“{name}” has no text in it, so there is nothing to attach."
    return DocumentRefused("No text", sentence)
