"""Shortcuts as people read them, and those that several files name."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QKeySequence

ENLARGE_KEY: Final = "F9"
NEXT_TOKEN_KEY: Final = "Alt+."
PREVIOUS_TOKEN_KEY: Final = "Alt+,"
TOUR_KEY: Final = "F1"


def shown_key(sequence: str) -> str:
    """As the platform writes it: Ctrl+N, or ⌘N on macOS.

    >>> shown_key("Ctrl+Shift+F")  # on Linux
    'Ctrl+Shift+F'
    """
    return QKeySequence(sequence).toString(QKeySequence.SequenceFormat.NativeText)


def with_key(text: str, sequence: str) -> str:
    """A tooltip: what it does, and its key."""
    return f"{text}  ·  {shown_key(sequence)}"


def is_written(event: QKeyEvent) -> bool:
    """Whether a key writes a character, rather than asking for something."""
    held = event.modifiers() & (
        Qt.KeyboardModifier.ControlModifier
        | Qt.KeyboardModifier.AltModifier
        | Qt.KeyboardModifier.MetaModifier
    )
    return not held and event.text().isprintable() and bool(event.text().strip())
