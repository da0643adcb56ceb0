"""Tags for one chat or several: a list that typing narrows, and a name that is new becomes one.

Return ticks what the list stands on and empties the field; with nothing typed and nothing changed
since, it is Done. So a tag is two words and two keys away. Nothing is changed before Done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.conversations.tagging import KnownTag, cleaned, key_of
from models.records import Conversation
from ui.look.theme import Theme
from ui.widgets.elided import tip_text
from ui.widgets.kit import plain_label, push_button
from ui.widgets.ticks import TickDelegate

_NAME = Qt.ItemDataRole.UserRole
_STEPS: dict[int, int] = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
_State = Qt.CheckState

Chosen = Callable[[tuple[str, ...], tuple[str, ...]], None]
"""Called with the tags to put on all of the chats, and those to take off."""


class TagDialog(QDialog):
    """`known`: all tags there are. Those that some of the chats have, and not all, are half
    ticked, and stay as they are unless somebody ticks them."""

    def __init__(
        self,
        theme: Theme,
        chats: Sequence[Conversation],
        known: Sequence[KnownTag],
        chosen: Chosen,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._chosen = chosen
        self._names = {key_of(tag.name): tag.name for tag in known}
        self._before = {key: _state(key, chats) for key in self._names}
        self._now = dict(self._before)
        self.setObjectName("tag_dialog")
        self.setWindowTitle("Tags")
        self.setAccessibleName("Tags")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        what = f"“{chats[0].title}”" if len(chats) == 1 else f"{len(chats):,} chats"
        label = plain_label(f"Tags of {what}", self, wraps=True)
        self.field = QLineEdit(self)
        self.field.setObjectName("tag_field")
        self.field.setAccessibleName("Find a tag or name a new one")
        self.field.setPlaceholderText("Find a tag or name a new one")
        self.list = QListWidget(self)
        self.list.setObjectName("tag_list")
        self.list.setAccessibleName("Tags")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setUniformItemSizes(True)
        self.list.setItemDelegate(TickDelegate(theme, self.list))
        self.words = plain_label("", self, "small", name="tag_words", wraps=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.done_button = push_button("Done", self, kind="primary")
        self.done_button.setDefault(True)
        buttons.addButton(self.done_button, QDialogButtonBox.ButtonRole.AcceptRole)
        column = QVBoxLayout(self)
        theme.space(column, 12, margins=16)
        for widget in (label, self.field, self.list, self.words, buttons):
            column.addWidget(widget)
        self.field.installEventFilter(self)
        self.field.textChanged.connect(lambda _: self._fill())
        self.list.itemChanged.connect(self._on_item_changed)
        # What is typed is a tag, too, for who clicks Done.
        self.done_button.clicked.connect(self._finish)
        buttons.rejected.connect(self.reject)
        self.resize(theme.px(320), theme.px(380))
        self._fill()
        self.field.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """While the field has the keyboard the arrows walk in the list, and Return ticks."""
        if event.type() != QEvent.Type.KeyPress or not isinstance(event, QKeyEvent):
            return super().eventFilter(watched, event)
        if step := _STEPS.get(event.key(), 0):
            row = self.list.currentRow() + step
            self.list.setCurrentRow(max(0, min(row, self.list.count() - 1)))
            return True
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.field.text().strip():
            self._tick_current()
            return True
        return super().eventFilter(watched, event)

    def _tick_current(self) -> None:
        item = self.list.currentItem()
        if item is not None:
            is_on = item.checkState() is _State.Checked
            item.setCheckState(_State.Unchecked if is_on else _State.Checked)
            self.field.clear()

    def _on_item_changed(self, item: QListWidgetItem) -> None:
        name = str(item.data(_NAME))
        self._names.setdefault(key_of(name), name)
        self._now[key_of(name)] = item.checkState()

    def _finish(self) -> None:
        name = cleaned(self.field.text())
        if name and not self._has_shown(name):
            self._names.setdefault(key_of(name), name)
            self._now[key_of(name)] = _State.Checked
        changed = [key for key, now in self._now.items() if now is not self._before.get(key, None)]
        on = tuple(self._names[key] for key in changed if self._now[key] is _State.Checked)
        off = tuple(self._names[key] for key in changed if self._now[key] is _State.Unchecked)
        self.accept()
        self._chosen(on, off)

    def _has_shown(self, name: str) -> bool:
        """Whether what is typed only narrows the list, to tags that are there."""
        return any(key_of(name) in key for key in self._names)

    def _fill(self) -> None:
        """The tags that hold what is typed; ticked ones first while nothing is. The typed name
        itself as a new one."""
        typed = cleaned(self.field.text())
        self.list.blockSignals(True)
        self.list.clear()
        keys = [key for key in self._names if not typed or key_of(typed) in key]
        keys.sort(key=lambda key: (not typed and self._now[key] is _State.Unchecked, key))
        for key in keys:
            self._add(self._names[key], self._names[key], self._now[key])
        if typed and key_of(typed) not in self._names:
            self._add(f"New tag “{typed}”", typed, _State.Unchecked)
        self.list.setCurrentRow(self._best_row(typed))
        self.list.blockSignals(False)
        self.words.setText("" if self.list.count() else "No tags yet. Type a name to make one.")
        self.words.setVisible(not self.list.count())

    def _best_row(self, typed: str) -> int:
        """What Return ticks: the tag that is called so, else one that begins so, else the new."""
        names = [key_of(str(self.list.item(row).data(_NAME))) for row in range(self.list.count())]
        key = key_of(typed)
        for fits in (str.__eq__, str.startswith):
            for row, name in enumerate(names):
                if key and name in self._names and fits(name, key):
                    return row
        return max(len(names) - 1, 0) if key else 0

    def _add(self, text: str, name: str, state: Qt.CheckState) -> None:
        item = QListWidgetItem(text, self.list)
        item.setData(_NAME, name)
        item.setToolTip(tip_text(text))
        item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
        item.setCheckState(state)


def _state(key: str, chats: Sequence[Conversation]) -> Qt.CheckState:
    having = sum(any(key_of(name) == key for name in chat.tags) for chat in chats)
    if having == len(chats):
        return _State.Checked
    return _State.PartiallyChecked if having else _State.Unchecked
