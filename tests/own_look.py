"""The application's look, which all tests of a worker share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from PySide6.QtWidgets import QApplication


@contextlib.contextmanager
def kept_look(app: QApplication) -> Iterator[None]:
    """Sheet, font and colours are at the end what they were."""
    sheet, font, palette = app.styleSheet(), app.font(), app.palette()
    yield
    if app.styleSheet() != sheet:
        app.setStyleSheet(sheet)
    if app.font() != font:
        app.setFont(font)
    if app.palette() != palette:
        app.setPalette(palette)
