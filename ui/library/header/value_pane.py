"""One value of a header, whole: a text with its lines, an array a page at a time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.library.header_shown import ValueRow, one_line
from ui.library.header.long_text import fit_for_field
from ui.look.theme import Theme
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import push_button

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from app.gguf.header import Scalar
    from app.gguf.items import ShownText
    from app.library.header_shown import HeaderShown

PAGE: Final = 200
CHOOSE: Final = "Choose a key to see its full value."
READING: Final = "Reading…"


class ValuePane(QWidget):
    """`show_value` says which. What was passed over when the header was read is asked for."""

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._shown: HeaderShown | None = None
        self._row: ValueRow | None = None
        self._first = 0
        self._asked = 0
        self._whole = ""
        self.setObjectName("value_pane")
        self.title = ElidedLabel("", self)
        self.title.setObjectName("value_title")
        self.title.setProperty("kind", "small")
        self.copy_button = IconButton(theme, "copy", "Copy this value", parent=self)
        self.copy_button.setObjectName("copy_value_button")
        self.text = QPlainTextEdit(self)
        self.text.setObjectName("value_text")
        self.text.setAccessibleName("Full value")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setPlaceholderText(CHOOSE)
        self.text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._make_pages()
        self._build()
        self.copy_button.clicked.connect(self._copy)
        theme.space(self._column, 4)
        theme.space(self._head, 8)
        theme.space(self._pages_row, 4)
        theme.size(self.go_field, 88)
        theme.font(self.text, Theme.font_mono, 12)
        self.show_value(None, None)

    def _make_pages(self) -> None:
        self.pages = QWidget(self)
        self.earlier_button = push_button(
            "Earlier", self.pages, "earlier_items_button", spoken="Earlier items"
        )
        self.later_button = push_button(
            "Later", self.pages, "later_items_button", spoken="Later items"
        )
        self.go_field = QLineEdit(self.pages)
        self.go_field.setObjectName("go_to_item")
        self.go_field.setAccessibleName("Go to item number")
        self.go_field.setPlaceholderText("Item")
        self.earlier_button.clicked.connect(lambda: self._turn(-PAGE))
        self.later_button.clicked.connect(lambda: self._turn(PAGE))
        self.go_field.returnPressed.connect(self._go)

    def _build(self) -> None:
        self._head = QHBoxLayout()
        self._head.addWidget(self.title, 1)
        self._head.addWidget(self.pages)
        self._head.addWidget(self.copy_button)
        self._pages_row = QHBoxLayout(self.pages)
        self._pages_row.setContentsMargins(0, 0, 0, 0)
        for widget in (self.go_field, self.earlier_button, self.later_button):
            self._pages_row.addWidget(widget)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._head)
        self._column.addWidget(self.text, 1)

    # --- what is shown --------------------------------------------------------------------------

    def show_value(self, shown: HeaderShown | None, row: ValueRow | None) -> None:
        self._shown, self._row, self._first = shown, row, 0
        self._asked += 1
        entry = row.entry if row is not None else None
        is_array = entry is not None and row is not None and row.new is None and _is_array(row)
        self.pages.setVisible(is_array and entry is not None and entry.count > PAGE)
        self.copy_button.setEnabled(row is not None)
        if row is None or shown is None:
            self._put("", "")
        elif row.new is not None:
            from app.gguf.values import text_of_value

            self._put(f"{row.key} · {row.kind_name}", text_of_value(row.new.value))
        elif is_array:
            self._ask_items()
        elif row.key in shown.header.metadata:
            from app.gguf.values import text_of_value

            self._put(f"{row.key} · {row.kind_name}", text_of_value(shown.header.metadata[row.key]))
        else:
            self._ask_text()

    def _ask_items(self) -> None:
        shown, row = self._shown, self._row
        if shown is None or row is None or row.entry is None:
            return
        self._asked += 1
        asked, first, count = self._asked, self._first, row.entry.count
        self.earlier_button.setEnabled(first > 0)
        self.later_button.setEnabled(first + PAGE < row.entry.count)
        if not row.entry.count:
            self._put(f"{row.key} · {row.kind_name} · empty", "")
            return

        def take(items: list[Scalar | ShownText]) -> None:
            last = first + len(items) - 1
            words = f"items {first:,} to {last:,} of {count:,}"
            self._put(f"{row.key} · {row.kind_name} · {words}", _lines(first, items))

        self._wait(f"{row.key} · {row.kind_name}")
        self._desk.headers.read_items(
            shown.path,
            row.entry,
            first,
            PAGE,
            take,
            partial(self._say, row.key),
            still=lambda: asked == self._asked,
        )

    def _ask_text(self) -> None:
        shown, row = self._shown, self._row
        if shown is None or row is None or row.entry is None:
            return
        self._asked += 1
        asked = self._asked

        def take(found: ShownText) -> None:
            part = "" if found.is_whole else f", first {len(found.text):,} characters"
            self._put(f"{row.key} · {found.size_bytes:,} bytes{part}", found.text)

        self._wait(f"{row.key} · {row.kind_name}")
        self._desk.headers.read_text(
            shown.path,
            row.entry,
            take,
            partial(self._say, row.key),
            still=lambda: asked == self._asked,
        )

    def _wait(self, title: str) -> None:
        """What was shown stays until the answer comes, if it is of the same key."""
        if not self.title.text().startswith(title):
            self._put(title, "", READING)

    def _say(self, key: str, sentence: str) -> None:
        self._put(key, "", sentence)

    def _put(self, title: str, text: str, placeholder: str = CHOOSE) -> None:
        self.title.set_text(one_line(title, 300))
        self.text.setPlaceholderText(placeholder)
        self._whole = text
        self.text.setPlainText(fit_for_field(text))

    # --- moving and copying ---------------------------------------------------------------------

    def _turn(self, step: int) -> None:
        row = self._row
        if row is not None and row.entry is not None:
            self._first = max(0, min(self._first + step, row.entry.count - 1))
            self._ask_items()

    def _go(self) -> None:
        """To the item with this number, which then stands first."""
        text = self.go_field.text().strip().replace(",", "")
        row = self._row
        if row is None or row.entry is None:
            return
        if not text.isdecimal() or len(text) > 20 or int(text) >= row.entry.count:
            self.go_field.selectAll()
            self.go_field.setToolTip(f"Enter a number from 0 to {row.entry.count - 1:,}")
            self.title.set_text(f"Enter an item from 0 to {row.entry.count - 1:,}.")
            return
        self._first = int(text)
        self._ask_items()

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._whole)


def _is_array(row: ValueRow) -> bool:
    return row.kind_name.startswith("array")


def _lines(first: int, items: list[Scalar | ShownText]) -> str:
    """One item a line, with its number."""
    wide = len(str(first + len(items)))
    return "\n".join(f"{first + at:>{wide}}  {_item(item)}" for at, item in enumerate(items))


def _item(item: Scalar | ShownText) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int | float | str):
        return f"{item!r}" if isinstance(item, float) else str(item)
    return one_line(item.text, 1000) + ("" if item.is_whole else f" ({item.size_bytes:,} bytes)")
