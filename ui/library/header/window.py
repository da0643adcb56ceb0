"""All that a file says of itself: values, tensors, chat templates; and a corrected copy of it.

Nothing here waits for a disk: the desk reads and writes beside the window. The file itself is
never changed. What is changed here is kept until it is written into a copy or taken back, also
while the window is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QLineEdit,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from app.amounts import bytes_words
from app.library.header_shown import HeaderShown, ValueRow, one_line, value_row
from ui.library.defaults.template_page import TemplatePage
from ui.library.header.copy_bar import CopyBar
from ui.library.header.models import TensorsModel, TypesModel, ValuesModel
from ui.library.header.table import HeaderTable
from ui.library.header.value_dialog import ValueDialog
from ui.library.header.value_pane import ValuePane
from ui.library.header.words import counted, is_part, summary
from ui.look.theme import Theme
from ui.widgets.elided import ElidedLabel
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from app.gguf.header import Scalar
    from app.gguf.items import ShownText
    from app.gguf.values import NewValue

SIZE_PX = (860, 640)
IN_PARTS: Final = "A split file can't be copied with edits. Join its parts first"
READING: Final = "Reading the header…"
MAX_EDITED_ITEMS: Final = 512
MAX_EDITED_BYTES: Final = 300_000
MOST_TYPES: Final = 6
NARROW_SEARCH_PX: Final = 200
VALUES, TENSORS, TEMPLATE = range(3)
_FILTERS: Final = {
    VALUES: "Search keys and values",
    TENSORS: "Search tensors by name or type",
}


def show_file(parent: QWidget, desk: Desk, theme: Theme, path: Path) -> HeaderWindow:
    """Show the header of this file in a window of its own; one that is open comes to the front,
    one that was closed is used again."""
    windows = parent.findChildren(HeaderWindow)
    window = next((each for each in windows if each.path == path), None)
    if window is None:
        unused = (each for each in windows if each.isHidden() and not each.is_busy)
        window = next(unused, None) or HeaderWindow(desk, theme, parent)
        window.open(path)
    elif window.isHidden() and not window.is_busy:
        window.open(path)  # it may be another by now
    window.show()
    window.raise_()
    window.activateWindow()
    return window


class HeaderWindow(WindowBeside):
    """`open` reads a file. `is_busy`: changes are kept here, or a copy is on its way."""

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "header_window", "", parent, keys=("Ctrl+W",))
        self._desk = desk
        self.path = Path()
        self._asked = 0
        self._shown: HeaderShown | None = None
        self._changes: dict[str, NewValue | None] = {}
        self._make_top()
        self._make_values()
        self._make_tensors()
        self.template_page = TemplatePage(theme, self)
        self.copy_bar = CopyBar(desk, theme, self)
        self._build()
        self._connect()
        theme.space(self._column, 8, margins=(16, 16, 16, 12))
        theme.space(self._bar, 12)
        theme.space(self._values_row, 8)
        theme.space(self._values_column, 8)
        theme.space(self._tensors_column, 8)
        self._lay_bar()
        self._show_page(VALUES)
        ZoomedSize(self, theme, SIZE_PX)

    # --- building -------------------------------------------------------------------------------

    def _make_top(self) -> None:
        self.name = ElidedLabel("", self)
        self.name.setObjectName("header_name")
        self.name.setProperty("kind", "title")
        self.summary = plain_label("", self, "small", name="header_summary", wraps=True)
        self.trouble = plain_label("", self, "error", name="header_trouble", wraps=True)
        self.tabs = QTabBar(self)
        self.tabs.setObjectName("header_tabs")
        self.tabs.setAccessibleName("Header pages")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        for title in ("Values", "Tensors", "Chat template"):
            self.tabs.addTab(title)
        self.search = QLineEdit(self)
        self.search.setObjectName("header_search")
        self.search.setClearButtonEnabled(True)
        self.state = plain_label("", self, name="header_state", wraps=True)
        self.state.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.state.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)

    def _make_values(self) -> None:
        self.values = ValuesModel(self._theme)
        self.values_page = QWidget(self)
        self.values_table = HeaderTable(self._theme, self.values, 2, {0: 280, 1: 120, 2: 200}, self)
        self.values_table.setObjectName("values_table")
        self.values_table.setAccessibleName("Keys and values in the file")
        self.pane = ValuePane(self._desk, self._theme, self)
        self.change_button = push_button("Change…", self.values_page, "change_value_button")
        self.remove_button = push_button("Remove", self.values_page, "remove_key_button")
        self.add_button = push_button(
            "Add a key…", self.values_page, "add_key_button", spoken="Add a key to the copy"
        )
        self.values_figure = plain_label("", self.values_page, "small", name="values_figure")
        self._values_row = QHBoxLayout()
        for button in (self.change_button, self.remove_button, self.add_button):
            self._values_row.addWidget(button)
        self._values_row.addStretch(1)
        self._values_row.addWidget(self.values_figure)
        self.split = QSplitter(Qt.Orientation.Vertical, self.values_page)
        self.split.setChildrenCollapsible(False)
        self.split.addWidget(self.values_table)
        self.split.addWidget(self.pane)
        self.split.setStretchFactor(0, 3)
        self.split.setStretchFactor(1, 2)
        self._values_column = QVBoxLayout(self.values_page)
        self._values_column.setContentsMargins(0, 0, 0, 0)
        self._values_column.addWidget(self.split, 1)
        self._values_column.addLayout(self._values_row)

    def _make_tensors(self) -> None:
        self.types = TypesModel()
        self.tensors = TensorsModel()
        self.tensors_page = QWidget(self)
        self.types_table = HeaderTable(
            self._theme, self.types, 0, {0: 80, 1: 72, 2: 120, 3: 72, 4: 56, 5: 72}, self
        )
        self.types_table.setObjectName("types_table")
        self.types_table.setAccessibleName("Tensors by type. Press Return to show one type")
        self.tensors_table = HeaderTable(
            self._theme, self.tensors, 0, {0: 220, 1: 72, 2: 112, 3: 96, 4: 52, 5: 64, 6: 96}, self
        )
        self.tensors_table.setObjectName("tensors_table")
        self.tensors_table.setAccessibleName("All tensors")
        self.tensors_figure = plain_label("", self.tensors_page, "small", name="tensors_figure")
        self._tensors_column = QVBoxLayout(self.tensors_page)
        self._tensors_column.setContentsMargins(0, 0, 0, 0)
        self._tensors_column.addWidget(self.types_table)
        self._tensors_column.addWidget(self.tensors_table, 1)
        self._tensors_column.addWidget(self.tensors_figure)

    def _build(self) -> None:
        self.pages = QStackedWidget(self)
        for page in (self.values_page, self.tensors_page, self.template_page):
            self.pages.addWidget(page)
        self.pages.addWidget(self.state)
        self._bar = QHBoxLayout()
        self._bar.addWidget(self.tabs, 0, Qt.AlignmentFlag.AlignLeft)
        self._bar.addWidget(self.search, 1)
        self._column = QVBoxLayout(self)
        for widget in (self.name, self.summary, self.trouble):
            self._column.addWidget(widget)
        self._column.addLayout(self._bar)
        self._column.addWidget(self.pages, 1)
        self._column.addWidget(self.copy_bar)

    def _connect(self) -> None:
        self.tabs.currentChanged.connect(self._show_page)
        self.search.textChanged.connect(self._filter)
        self.values_table.selectionModel().currentRowChanged.connect(self._on_row)
        self.values_table.doubleClicked.connect(lambda _: self.change_value())
        self.types_table.activated.connect(lambda _: self._show_type())
        self.change_button.clicked.connect(self.change_value)
        self.remove_button.clicked.connect(self._leave_out)
        self.add_button.clicked.connect(self.add_key)
        self.copy_bar.undo_button.clicked.connect(self._undo_all)
        self.copy_bar.copy_asked.connect(lambda: self.copy_bar.ask(self.path, self._changes))
        self.copy_bar.began.connect(self._on_row)
        self.copy_bar.ended.connect(self._on_row)
        self.copy_bar.written.connect(self._on_written)
        self.copy_bar.show_asked.connect(self._show_copy)
        for watched in (self.values_table, self.types_table, self.search):
            watched.installEventFilter(self)
        QShortcut(QKeySequence.StandardKey.Find, self, self._to_search)
        QShortcut(QKeySequence("Esc"), self, self._on_escape)
        QShortcut(QKeySequence("F5"), self, lambda: self.open(self.path))
        QShortcut(QKeySequence("Ctrl+Tab"), self, lambda: self._turn(1))
        QShortcut(QKeySequence("Ctrl+Shift+Tab"), self, lambda: self._turn(-1))
        parent = self.parentWidget()
        if parent is not None:
            parent.window().installEventFilter(self)
        self._theme.changed.connect(self._lay_bar)

    def _lay_bar(self) -> None:
        """Tabs and search in one row, or in two where the window is narrow."""
        room = self.width() - self._column.contentsMargins().left() * 2
        is_wide = room >= self.tabs.sizeHint().width() + self._theme.px(NARROW_SEARCH_PX)
        ways = QBoxLayout.Direction
        self._bar.setDirection(ways.LeftToRight if is_wide else ways.TopToBottom)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_bar()

    # --- reading --------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return bool(self._changes) or self.copy_bar.is_writing

    def open(self, path: Path) -> None:
        """Read this file. What was changed of another is given up."""
        if path != self.path:
            self._changes.clear()
            self.copy_bar.forget()
        self.path = path
        name = one_line(path.name, 300)
        self.setWindowTitle(name)
        self.setAccessibleName(f"Header of {name}")
        self._asked += 1
        asked = self._asked
        if self._shown is None or self._shown.path != path:
            self._shown = None
            self.name.set_text(name)
            self._say(READING)

        def fail(sentence: str) -> None:
            self._shown = None
            self._say(sentence)

        self._desk.headers.read(path, self._take, fail, still=lambda: asked == self._asked)

    def _say(self, sentence: str) -> None:
        """In place of the pages."""
        self.state.setText(one_line(sentence, 1000))
        self.pages.setCurrentWidget(self.state)
        for widget in (self.summary, self.trouble, self.tabs, self.search, self.copy_bar):
            widget.hide()

    def _take(self, shown: HeaderShown) -> None:
        is_first, self._shown = self._shown is None, shown
        self._changes = {
            key: new
            for key, new in self._changes.items()
            if new is not None or key in shown.header.entries
        }
        self.name.set_text(one_line(shown.facts.name, 300))
        self.summary.setText(summary(shown))
        self.summary.setVisible(True)
        self.trouble.setText(one_line(shown.facts.trouble, 600))
        self.trouble.setVisible(bool(shown.facts.trouble))
        self.types.show_header(shown)
        self.tensors.show(shown.tensors)
        self.template_page.show_templates(shown.templates)
        self._show_values()
        self.types_table.fit_rows(MOST_TYPES)
        self.tabs.setTabText(TENSORS, f"Tensors ({len(shown.tensors):,})")
        self.tabs.show()
        self.copy_bar.show()
        if not self._chosen_key() and self.values.shown:
            self._choose(self.values.shown[0].key)
        self._show_page(self.tabs.currentIndex())
        if is_first and self.tabs.currentIndex() == VALUES:
            self.values_table.setFocus()
        self._say_counts()

    # --- pages ----------------------------------------------------------------------------------

    def _show_page(self, page: int) -> None:
        if self._shown is not None:
            self.pages.setCurrentIndex(page)
        self.search.setVisible(self._shown is not None and page in _FILTERS)
        words = _FILTERS.get(page, "")
        self.search.setPlaceholderText(words)
        self.search.setAccessibleName(words or "Search")
        self._filter()

    def _turn(self, step: int) -> None:
        if self._shown is not None:
            self.tabs.setCurrentIndex((self.tabs.currentIndex() + step) % self.tabs.count())

    def _filter(self) -> None:
        """The page that is shown; the other one keeps all, or what it had."""
        text = self.search.text()
        if self.tabs.currentIndex() == VALUES:
            key = self._chosen_key()
            self.values.filter(text)
            self._choose(key)
        elif self.tabs.currentIndex() == TENSORS:
            self.tensors.filter(text)
        self._say_counts()

    def _say_counts(self) -> None:
        shown = self._shown
        if shown is None:
            return
        n_all = len(self._rows(shown))
        self.tabs.setTabText(VALUES, f"Values ({n_all:,})")
        self.values_figure.setText(counted(self.values.rowCount(), n_all, "key"))
        tensors = self.tensors.shown
        size = sum(row.size_bytes for row in tensors)
        words = counted(len(tensors), len(shown.tensors), "tensor")
        self.tensors_figure.setText(f"{words} · {bytes_words(size)}")

    def _show_type(self) -> None:
        row = self.types.row_at(self.types_table.currentIndex())
        if row is not None:
            self.search.setText(row.type_name)
            self.tensors_table.setFocus()

    # --- values ---------------------------------------------------------------------------------

    def _rows(self, shown: HeaderShown) -> list[ValueRow]:
        """The rows as they are, with what is to be changed."""
        rows = []
        for row in shown.values:
            if row.key in self._changes:
                new = self._changes[row.key]
                row = value_row(row.key, shown.header, new, is_removed=new is None)
            rows.append(row)
        added = [key for key in self._changes if key not in shown.header.entries]
        return rows + [value_row(key, shown.header, self._changes[key]) for key in added]

    def _show_values(self, key: str = "") -> None:
        if self._shown is None:
            return
        key = key or self._chosen_key()
        self.values.show(self._rows(self._shown))
        self._choose(key)
        self.copy_bar.show_changes(len(self._changes))
        self._say_counts()

    def _chosen(self) -> ValueRow | None:
        return self.values.row_at(self.values_table.currentIndex())

    def _chosen_key(self) -> str:
        row = self._chosen()
        return row.key if row is not None else ""

    def _choose(self, key: str) -> None:
        at = self.values.row_of(key) if key else None
        if at is not None:
            self.values_table.setCurrentIndex(self.values.index(at, 0))
        self._on_row()

    def _on_row(self) -> None:
        row = self._chosen()
        self.pane.show_value(self._shown, row)
        name = one_line(row.key, 80) if row is not None else "the selected key"
        can_change = row is not None and not self.copy_bar.is_writing
        self.change_button.setEnabled(can_change and self._why_not(row) == "")
        self.change_button.setToolTip(self._why_not(row) if row is not None else "")
        self.change_button.setAccessibleName(f"Change {name} in the copy")
        is_changed = row is not None and row.is_changed
        self.remove_button.setText("Undo" if is_changed else "Remove")
        self.remove_button.setEnabled(can_change and (is_changed or self._fixed(row) == ""))
        self.remove_button.setAccessibleName(
            f"Undo the change to {name}" if is_changed else f"Remove {name} from the copy"
        )
        is_free = self._shown is not None and not self.copy_bar.is_writing
        self.add_button.setEnabled(is_free and not self._is_part)

    def _fixed(self, row: ValueRow | None) -> str:
        from app.gguf.rewrite import refusal_of_key

        if self._is_part:
            return IN_PARTS
        return refusal_of_key(row.key) if row is not None else ""

    @property
    def _is_part(self) -> bool:
        return self._shown is not None and is_part(self._shown)

    def _why_not(self, row: ValueRow | None) -> str:
        """Why this value cannot be changed here; "" if it can."""
        if row is None or row.is_removed:
            return "Undo its removal first" if row is not None else ""
        if why := self._fixed(row):
            return why
        if row.new is None and row.entry is not None:
            if row.kind_name.startswith("array") and row.entry.count > MAX_EDITED_ITEMS:
                return f"Lists of more than {MAX_EDITED_ITEMS} items can't be edited here"
            if row.kind_name == "string" and row.entry.count > MAX_EDITED_BYTES:
                return f"Texts of more than {MAX_EDITED_BYTES:,} bytes can't be edited here"
        return ""

    def change_value(self) -> None:
        """Ask for another value of the chosen key."""
        row, shown = self._chosen(), self._shown
        if row is None or shown is None or not self.change_button.isEnabled():
            return
        from app.gguf.values import text_of_value

        if row.new is not None:
            self._ask_value(row, text_of_value(row.new.value))
        elif row.key in shown.header.metadata:
            self._ask_value(row, text_of_value(shown.header.metadata[row.key]))
        elif row.entry is not None:
            self._ask_items(row, shown)

    def _ask_items(self, row: ValueRow, shown: HeaderShown) -> None:
        """A list is read first."""
        asked, entry = self._asked, row.entry
        assert entry is not None

        def take(items: list[Scalar | ShownText]) -> None:
            from app.gguf.values import text_of_value

            texts = [item for item in items if not isinstance(item, int | float | str)]
            if all(text.is_whole for text in texts):
                plain = [text.text for text in texts] or items
                self._ask_value(row, text_of_value(cast("list[Scalar]", plain)))
            else:
                self.copy_bar.say("This list contains texts that are too long to edit here.")

        self._desk.headers.read_items(
            shown.path,
            entry,
            0,
            entry.count,
            take,
            self.copy_bar.say,
            still=lambda: asked == self._asked and self._chosen_key() == row.key,
        )

    def _ask_value(self, row: ValueRow, text: str) -> None:
        dialog = ValueDialog(
            self._theme,
            self.set_value,
            key=row.key,
            kind_name=row.kind_name,
            text=text,
            parent=self,
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def add_key(self) -> None:
        """Ask for a key that the copy shall have, too."""
        if self._shown is None or not self.add_button.isEnabled():
            return
        known = {*self._shown.header.entries, *self._changes}
        dialog = ValueDialog(self._theme, self.set_value, known=known, parent=self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def set_value(self, key: str, new: NewValue) -> None:
        """Keep this value for the copy; not while one is written, which has what it has."""
        if self.copy_bar.is_writing:
            return
        self._changes[key] = new
        if self.values.row_of(key) is None:
            self.search.clear()
        self._show_values(key)

    def _leave_out(self) -> None:
        """Leave the chosen key out of the copy, or take its change back."""
        row = self._chosen()
        if row is None or not self.remove_button.isEnabled():
            return
        if row.is_changed:
            del self._changes[row.key]
        else:
            self._changes[row.key] = None
        self._show_values(row.key)

    def _undo_all(self) -> None:
        self._changes.clear()
        self._show_values()

    def _on_written(self) -> None:
        """What was kept for the copy is in it."""
        self._changes.clear()
        self._show_values()

    def _show_copy(self, path: Path) -> None:
        show_file(self.parentWidget() or self, self._desk, self._theme, path)

    # --- keys -----------------------------------------------------------------------------------

    def _to_search(self) -> None:
        if self._shown is None:
            return
        if self.search.isHidden():
            self.tabs.setCurrentIndex(VALUES)
        self.search.setFocus()
        self.search.selectAll()

    def _on_escape(self) -> None:
        if self.search.text():
            self.search.clear()
        else:
            self.close()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        parent = self.parentWidget()
        if parent is not None and watched is parent.window():
            if event.type() == QEvent.Type.Close:
                self.close()
            return False
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return super().eventFilter(watched, event)
        acts: dict[tuple[object, int], Callable[[], None]] = {
            (self.values_table, Qt.Key.Key_Return): self.change_value,
            (self.values_table, Qt.Key.Key_Enter): self.change_value,
            (self.values_table, Qt.Key.Key_Delete): self._leave_out,
            (self.types_table, Qt.Key.Key_Return): self._show_type,
            (self.types_table, Qt.Key.Key_Enter): self._show_type,
            (self.search, Qt.Key.Key_Down): self._to_table,
        }
        act = acts.get((watched, event.key()))
        if act is None or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            return super().eventFilter(watched, event)
        if not event.isAutoRepeat():
            act()
        return True

    def _to_table(self) -> None:
        is_values = self.tabs.currentIndex() == VALUES
        table = self.values_table if is_values else self.tensors_table
        if not table.currentIndex().isValid() and table.model().rowCount():
            table.setCurrentIndex(table.model().index(0, 0))
        table.setFocus()
