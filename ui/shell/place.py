"""Remembers where the window stood and how wide its columns were.

Settings come from the database after the first paint. Until then nothing is saved, so that
the window's first place never overwrites the remembered one. What is remembered for the first
paint may know less than the database, or something older: the columns follow what is read then,
unless somebody has moved them by then; until then nothing is saved, since it would count
over what the database has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QObject
from PySide6.QtWidgets import QMainWindow

from ui.shell.columns import Columns
from ui.widgets.kit import rest_timer

if TYPE_CHECKING:
    from app.chat.desk import Desk

SAVE_AFTER_MS = 700
COLUMNS = frozenset({"sidebar_visible", "sidebar_width", "section_width"})


class WindowPlace(QObject):
    def __init__(self, window: QMainWindow, columns: Columns, desk: Desk) -> None:
        super().__init__(window)
        self._window = window
        self._columns = columns
        self._desk = desk
        self._is_restored = False
        self._has_news = False
        self._is_moved = False
        """The columns are as somebody has put them, which the settings do not say yet."""
        self._timer = rest_timer(self, self._on_rest, SAVE_AFTER_MS)
        columns.moved.connect(self._on_columns_moved)
        if desk.settings.now.window_geometry:
            self._restore()

    def follow(self, names: frozenset[str]) -> None:
        """Settings were read or changed: take the place that they remember."""
        if not self._is_restored:
            self._restore()
        elif names & COLUMNS and not self._is_moved:
            self._restore_columns()

    def note(self) -> None:
        """The window was moved or resized: save it when that has come to rest."""
        self._has_news = True
        if self._is_restored:
            self._timer.start()

    def _on_rest(self) -> None:
        if self._desk.settings.is_read:
            self.save()
        else:  # a slow disk: what was put meanwhile is saved later
            self._timer.start()

    def save(self) -> None:
        self._timer.stop()
        if not (self._has_news and self._is_restored and self._desk.settings.is_read):
            return
        self._has_news = False
        geometry = bytes(self._window.saveGeometry().toHex().data()).decode()
        self._set("window_geometry", geometry)
        self._set("sidebar_visible", self._columns.is_sidebar_wanted)
        self._set("sidebar_width", self._columns.sidebar_width_px)
        self._set("section_visible", self._columns.is_section_shown)
        self._set("section_width", self._columns.section_width_px)
        self._is_moved = False

    def _on_columns_moved(self) -> None:
        self._is_moved = True
        self.note()

    def _set(self, name: str, value: object) -> None:
        if getattr(self._desk.settings.now, name) != value:
            self._desk.settings.set(name, value)

    def _restore(self) -> None:
        settings = self._desk.settings.now
        geometry = QByteArray.fromHex(settings.window_geometry.encode())
        if not geometry.isEmpty():
            self._window.restoreGeometry(geometry)
            self._has_news = False
        elif self._has_news:
            self._timer.start()  # nothing to restore: where it was put meanwhile counts
        self._restore_columns()
        self._is_restored = True

    def _restore_columns(self) -> None:
        settings = self._desk.settings.now
        self._columns.restore(
            settings.sidebar_visible, settings.sidebar_width, settings.section_width
        )
