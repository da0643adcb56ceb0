"""A window to read a document in, at its places: pages are marked, and the parts that went in are
highlighted. The text can't be changed.

What must hold: of a document longer than Qt lays out quickly a stretch around the wanted place is
shown, and it moves along; characters count as in the document's text, also where a long line was
broken for the eye.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QKeySequence, QShortcut, QTextCursor, QTextFormat
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPlainTextEdit,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.chat.attachments.document_parts import places_of
from app.insight.retrieval.choice import Part
from models.records import Attachment
from ui.chat.document_words import facts_text, note_of, part_text, whole_text
from ui.chat.find_bar import FindField
from ui.look.theme import Theme
from ui.pictures.words import size_words
from ui.widgets.combo import Combo
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label
from ui.widgets.utf16 import utf16_length
from ui.widgets.zoomed_size import ZoomedSize

SIZE_PX: Final = (720, 620)
STRETCH: Final = 400_000
"""Characters that are laid out at once."""
MAX_LINE: Final = 10_000
"""Qt lays a paragraph out whole: one of a million letters takes seconds."""
MOST_PLACES: Final = 2_000
"""In the list of places; a document with more is gone through by its parts and by finding."""


class Stretch:
    """Characters [start, end) of a text as they are shown: very long lines are broken."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.start, self.end = start, end
        shown: list[str] = []
        self._breaks: list[int] = []
        at = start
        for line in text[start:end].splitlines(keepends=True):
            for cut in range(0, len(line), MAX_LINE):
                if cut:
                    self._breaks.append(at + cut)
                    shown.append("\n")
                shown.append(line[cut : cut + MAX_LINE])
            at += len(line)
        self.text = "".join(shown).replace("\r\n", " \n")  # Qt has one character for both
        self._is_plain = utf16_length(self.text) == len(self.text)

    def place(self, character: int) -> int:
        """Where a character of the document stands, as Qt counts."""
        character = min(max(character, self.start), self.end)
        at = character - self.start + bisect_right(self._breaks, character)
        return at if self._is_plain else utf16_length(self.text[:at])

    def character(self, place: int) -> int:
        """The other way round."""
        low, high = self.start, self.end
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.place(middle) <= place else (low, middle - 1)
        return low


class DocumentWindow(QWidget):
    """`parts`: those that went in, `current` the one to begin at (−1: the beginning). `acts`: more
    buttons, by name and title."""

    def __init__(
        self,
        theme: Theme,
        document: Attachment,
        parts: Sequence[Part] = (),
        current: int = -1,
        by: str = "",
        parent: QWidget | None = None,
        *,
        search_again: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setProperty("plane", "side")
        self.setObjectName("document_window")
        self.setAccessibleName(f"Document {document.name}")
        self.setWindowTitle(document.name)
        self._theme, self._document, self._by = theme, document, by
        self._all_parts = tuple(parts)
        self._parts = tuple(part for part in parts if part.end <= len(document.text))
        self._places = places_of(document)
        self._starts = [start for start, _ in self._places]
        self.current = current
        self._stretch = Stretch(document.text, 0, 0)
        said = (facts_text(document), size_words(document), whole_text(document), note_of(document))
        facts = " · ".join(filter(None, said))
        self._facts = plain_label(facts, self, "small", name="document_facts", wraps=True)
        self.places = Combo(theme, self)
        self.places.setObjectName("document_places")
        self.places.setAccessibleName("Go to a place in the document")
        for start, label in self._places[:MOST_PLACES]:
            self.places.addItem(label, start)
        self.places.setVisible(bool(self._places))
        self.part_words = plain_label("", self, "small", name="document_part")
        self.back = IconButton(theme, "caret-up", "Previous part", hint="Previous part (Shift+F3)")
        self.next = IconButton(theme, "caret-down", "Next part", hint="Next part (F3)")
        self.finder = FindField(self)
        self.finder.setObjectName("document_find")
        self.finder.setPlaceholderText("Find in this document")
        self.finder.setAccessibleName("Find in this document")
        self.found = plain_label("", self, "small", name="document_found")
        self.view = QPlainTextEdit(self)
        self.view.setObjectName("document_text")
        self.view.setAccessibleName("Text of the document")
        self.view.setReadOnly(True)
        self.view.setTabChangesFocus(True)
        self.view.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        first, second = QHBoxLayout(), QHBoxLayout()
        first.addWidget(self._facts, 1)
        first.addWidget(self.places)
        for widget in (self.back, self.next, self.part_words):
            second.addWidget(widget)
            widget.setVisible(bool(self._parts))
        second.addStretch(1)
        second.addWidget(self.found)
        second.addWidget(self.finder)
        if search_again is not None:
            second.addWidget(self._search_again(search_again))
        column = QVBoxLayout(self)
        column.addLayout(first)
        column.addLayout(second)
        column.addWidget(self.view, 1)
        theme.space(first, 8)
        theme.space(second, 4)
        theme.space(column, 8, margins=(16, 12, 16, 16))
        theme.font(self.view, Theme.font_mono)
        theme.at_most(self.finder, 240)
        self.places.activated.connect(lambda _: self._go(self.places.currentData()))
        self.back.clicked.connect(lambda: self.step(-1))
        self.next.clicked.connect(lambda: self.step(1))
        self.finder.stepped.connect(self.find_next)
        self.finder.left.connect(self.view.setFocus)
        self.view.verticalScrollBar().valueChanged.connect(lambda _: self._show_place())
        for keys, act in (
            ("Esc", self.close),
            ("Ctrl+W", self.close),
            ("F3", lambda: self.step(1)),
            ("Shift+F3", lambda: self.step(-1)),
            ("Ctrl+F", self.finder.setFocus),
        ):
            QShortcut(QKeySequence(keys), self, act)
        theme.changed.connect(self._mark)
        ZoomedSize(self, theme, SIZE_PX)
        self.show_part(current)
        self.view.setFocus()

    def _search_again(self, act: Callable[[], object]) -> QWidget:
        def do() -> None:
            act()
            self.close()

        button = IconButton(
            self._theme,
            "arrow-clockwise",
            "Search again",
            hint="Search again for this question, as a new version of the message",
        )
        button.setObjectName("search_again_button")
        button.clicked.connect(do)
        return button

    def shows(self, document: Attachment, parts: Sequence[Part]) -> bool:
        """Whether these parts of this text are what it was made for."""
        return document.text == self._document.text and tuple(parts) == self._all_parts

    # --- going ------------------------------------------------------------------------------------

    def show_part(self, number: int) -> None:
        """Scroll to a part that went in, and mark it; −1: to the beginning."""
        self.current = number if 0 <= number < len(self._parts) else -1
        self._go(self._parts[self.current].start if self.current >= 0 else 0)
        self._say_part()

    def step(self, by: int) -> None:
        if self._parts:
            self.show_part((max(self.current, -1 if by > 0 else 0) + by) % len(self._parts))

    def _go(self, character: int) -> None:
        """Show this character at the top."""
        if not self._stretch.start <= character < self._stretch.end:
            self._lay_out(character)
        cursor = QTextCursor(self.view.document())
        cursor.setPosition(self._stretch.place(character))
        self.view.setTextCursor(cursor)
        self._mark()
        bar = self.view.verticalScrollBar()
        bar.setValue(cursor.block().firstLineNumber())
        self.view.ensureCursorVisible()
        self._show_place()

    def _lay_out(self, character: int) -> None:
        text = self._document.text
        start = max(0, min(character - STRETCH // 2, len(text) - STRETCH))
        start = text.rfind("\n", 0, start) + 1 if start else 0
        self._stretch = Stretch(text, start, min(len(text), start + STRETCH))
        self.view.setPlainText(self._stretch.text)

    def find_next(self, step: int) -> None:
        """The next place where it stands, round about; −1: the one before."""
        wanted, text = self.finder.text(), self._document.text
        if not wanted:
            return
        folded, wanted = text.casefold(), wanted.casefold()
        if len(folded) != len(text):  # letters that fold into two: found as they are written
            folded, wanted = text, self.finder.text()
        at = self._stretch.character(self.view.textCursor().selectionStart())
        if step > 0:
            place = folded.find(wanted, at + bool(self.view.textCursor().hasSelection()))
            place = folded.find(wanted) if place < 0 else place
        else:
            place = folded.rfind(wanted, 0, max(0, at + len(wanted) - 1))
            place = folded.rfind(wanted) if place < 0 else place
        self.found.setText("" if place >= 0 else "Not found")
        if place < 0:
            return
        self._go(place)
        cursor = self.view.textCursor()
        cursor.setPosition(self._stretch.place(place))
        end = self._stretch.place(place + len(wanted))
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        self.view.setTextCursor(cursor)

    # --- showing ----------------------------------------------------------------------------------

    def _say_part(self) -> None:
        if not self._parts:
            return
        n_parts = f"{len(self._parts):,} part{'' if len(self._parts) == 1 else 's'} went in"
        if self.current < 0:
            self.part_words.setText(n_parts)
            return
        words = part_text(self._parts[self.current], self._by, self.current)
        self.part_words.setText(f"Part {self.current + 1:,} of {len(self._parts):,} · {words}")

    def _show_place(self) -> None:
        """The place that the first line on screen belongs to."""
        if not self._places:
            return
        first = self.view.cursorForPosition(self.view.viewport().rect().topLeft())
        character = self._stretch.character(first.position())
        index = bisect_right(self._starts, character) - 1
        if not self.places.view().isVisible():
            self.places.setCurrentIndex(index if index < self.places.count() else -1)

    def _mark(self) -> None:
        colors, marks = self._theme.colors, list[QTextEdit.ExtraSelection]()
        stretch = self._stretch
        for start, _ in self._places:
            if stretch.start <= start < stretch.end:
                marks.append(self._marked(start, start, colors.hover, is_line=True))
        for number, part in enumerate(self._parts):
            if part.end > stretch.start and part.start < stretch.end:
                color = colors.found if number == self.current else colors.accent_tone
                marks.append(self._marked(part.start, part.end, color))
        self.view.setExtraSelections(marks)

    def _marked(
        self, start: int, end: int, color: str, *, is_line: bool = False
    ) -> QTextEdit.ExtraSelection:
        mark = QTextEdit.ExtraSelection()
        mark.format.setBackground(QColor(color))
        if is_line:
            mark.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
        cursor = QTextCursor(self.view.document())
        cursor.setPosition(self._stretch.place(start))
        cursor.setPosition(self._stretch.place(end), QTextCursor.MoveMode.KeepAnchor)
        mark.cursor = cursor
        return mark
