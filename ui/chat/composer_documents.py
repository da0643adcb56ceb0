"""What goes in of each document of the draft: whole, pages, or the parts that fit the question; and
which documents of the chat are searched for it.

By keyboard: Tab goes through the choices and fields, arrows change a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from app.chat.attachments.document_parts import mode_of, places_of
from models.records import Attachment
from ui.chat.document_words import (
    MODES,
    goes_in,
    has_choice,
    is_parts,
    whole_cost,
    whole_text,
)
from ui.look.theme import Theme
from ui.widgets.combo import Combo
from ui.widgets.elided import ElidedLabel, tip_text
from ui.widgets.flow import ShortArea
from ui.widgets.kit import plain_label, push_button, rest_timer

MAX_HEIGHT_PX: Final = 96
PAGES_PX: Final = 150
TYPED_MS: Final = 400

Choose = Callable[[str, str, str], str]
"""An attachment's id, a mode, the pages typed: what is wrong with them, else ""."""


class DocumentRow(QFrame):
    """One document of the draft."""

    opened = Signal(str)
    resized = Signal()

    def __init__(
        self, theme: Theme, attachment: Attachment, choose: Choose, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._choose, self.attachment = choose, attachment
        self._is_pending = False
        self._text = self._about = ""
        """A mode is chosen here that still lacks its pages."""
        self.setObjectName("document_row")
        self._name = ElidedLabel(attachment.name, self)
        self.mode = Combo(theme, self)
        self.mode.setObjectName("document_mode")
        self.mode.setAccessibleName(f"What of {attachment.name} is sent")
        self.mode.setSizeAdjustPolicy(Combo.SizeAdjustPolicy.AdjustToContents)
        for mode, words in MODES.items():
            if mode != "pages" or places_of(attachment):
                self.mode.addItem(words, mode)
        self.pages = QLineEdit(self)
        self.pages.setObjectName("document_pages")
        self.pages.setPlaceholderText("1-3, 7")
        self.pages.setMaxLength(400)
        self.pages.setAccessibleName(f"Pages of {attachment.name}")
        self.words = plain_label("", self, "small", name="document_words", wraps=True)
        first = QHBoxLayout()
        first.addWidget(self._name, 1)
        first.addWidget(self.pages)
        first.addWidget(self.mode)
        column = QVBoxLayout(self)
        column.addLayout(first)
        column.addWidget(self.words)
        self._typed = rest_timer(self, self._take, TYPED_MS)
        self.mode.activated.connect(lambda _: self._on_mode())
        self.pages.textEdited.connect(lambda _: self._typed.start())
        self.pages.editingFinished.connect(self._take)
        theme.space(first, 8)
        theme.space(column, 2, margins=(2, 0, 0, 2))
        theme.at_most(self.pages, PAGES_PX)
        theme.at_least(self.pages, 60)
        self.show_attachment(attachment)

    def show_attachment(self, attachment: Attachment, *, is_alone: bool = False) -> None:
        """The same one: what goes in, or its cost, may be known now. `is_alone`: its chip alone
        says which it is."""
        whole = self._whole_text(attachment)
        said = whole if is_alone else f"{attachment.name} · {whole}"
        self._name.setText(said)
        self._name.setToolTip(tip_text(said))
        mode = mode_of(attachment)
        if not self._is_pending:
            self.mode.setCurrentIndex(max(0, self.mode.findData(mode)))
        self.pages.setVisible(self.mode.currentData() == "pages")
        if not self.pages.hasFocus() and not self.pages.text():
            self.pages.setText(str(attachment.details.get("pages", "")))
        if self.mode.currentData() == mode and not self._is_pending:
            words = "" if mode == "whole" else goes_in(attachment)
            self._say(words)

    def _whole_text(self, attachment: Attachment) -> str:
        if self._about and whole_cost(attachment) is None and attachment.text is self._text:
            return self._about
        self._text, self._about = attachment.text, whole_text(attachment)
        return self._about

    def _say(self, words: str) -> None:
        if words == self.words.text() and self.words.isHidden() == (not words):
            return
        self.words.setText(words)
        self.words.setVisible(bool(words))
        self.updateGeometry()
        self.resized.emit()

    def _on_mode(self) -> None:
        mode = str(self.mode.currentData())
        self.pages.setVisible(mode == "pages")
        self._is_pending = mode == "pages" and not self.pages.text().strip()
        if self._is_pending:
            self._say("Type the pages to send, such as 1-3, 7. Until then it is sent as before.")
            self.pages.setFocus()
            return
        self._take()

    def _take(self) -> None:
        self._typed.stop()
        mode, pages = str(self.mode.currentData()), self.pages.text()
        is_same = mode == mode_of(self.attachment)
        if is_same and (mode != "pages" or pages == self.attachment.details.get("pages")):
            return
        wrong = self._choose(self.attachment.id, mode, pages if mode == "pages" else "")
        self._is_pending = bool(wrong)
        if wrong:
            self._say(wrong)


class EarlierRow(QFrame):
    """A document of an earlier message that is searched for this one, too."""

    left = Signal(str)

    def __init__(self, theme: Theme, attachment: Attachment, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("earlier_document_row")
        self.words = plain_label("", self, "small", name="earlier_document_words", wraps=True)
        self.leave = push_button(
            "Don't search",
            self,
            "leave_document_button",
            kind="quiet",
            spoken=f"Don't search {attachment.name} for later messages",
            hint="Later messages in this chat aren't searched in it any more",
            act=lambda: self.left.emit(attachment.id),
        )
        row = QHBoxLayout(self)
        row.addWidget(self.words, 1)
        row.addWidget(self.leave)
        theme.space(row, 8, margins=(2, 0, 0, 0))
        self.show_attachment(attachment)

    def show_attachment(self, attachment: Attachment) -> None:
        self.words.setText(f"{attachment.name}: {goes_in(attachment)}")


class ComposerDocuments(ShortArea):
    """All of them, above the field. Hidden where there are none."""

    left = Signal(str)

    def __init__(self, theme: Theme, choose: Choose, parent: QWidget | None = None) -> None:
        inside = QWidget()
        self._column = QVBoxLayout(inside)
        super().__init__(inside, parent)
        self._theme, self._choose = theme, choose
        self._rows: dict[str, DocumentRow] = {}
        self._earlier: dict[str, EarlierRow] = {}
        self.setObjectName("composer_documents")
        self.setAccessibleName("What is sent of documents")
        theme.space(self._column, 4, margins=(0, 0, 0, 0))
        theme.keep(self, ComposerDocuments.set_limit, MAX_HEIGHT_PX)
        self.setStyleSheet(
            "#composer_documents, #composer_documents > QWidget { background: none; }"
        )
        self.hide()

    def rows(self) -> list[DocumentRow]:
        return list(self._rows.values())

    def earlier_rows(self) -> list[EarlierRow]:
        return list(self._earlier.values())

    def set_documents(self, attachments: Sequence[Attachment]) -> None:
        wanted = {a.id: a for a in attachments if has_choice(a) or is_parts(a)}
        is_alone = len(attachments) == 1
        self._drop(self._rows, wanted)
        for own_id, attachment in wanted.items():
            if own_id in self._rows:
                self._rows[own_id].show_attachment(attachment, is_alone=is_alone)
                continue
            row = DocumentRow(self._theme, attachment, self._choose, self.widget())
            row.show_attachment(attachment, is_alone=is_alone)
            row.resized.connect(self.fit)
            self._rows[own_id] = row
            self._column.insertWidget(len(self._rows) - 1, row)
            row.show()
        self._settle()

    def set_earlier(self, parts: Sequence[Attachment]) -> None:
        wanted = {each.id: each for each in parts}
        self._drop(self._earlier, wanted)
        for own_id, attachment in wanted.items():
            if own_id in self._earlier:
                self._earlier[own_id].show_attachment(attachment)
                continue
            row = EarlierRow(self._theme, attachment, self.widget())
            row.left.connect(self.left)
            self._earlier[own_id] = row
            self._column.addWidget(row)
            row.show()
        self._settle()

    def _drop(self, rows: dict[str, DocumentRow] | dict[str, EarlierRow], wanted: object) -> None:
        for gone in [own for own in rows if own not in wanted]:  # type: ignore[operator]
            row = rows.pop(gone)
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()

    def _settle(self) -> None:
        self.setVisible(bool(self._rows or self._earlier))
        self.fit()
