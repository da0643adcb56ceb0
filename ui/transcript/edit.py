"""Writing inside of the transcript: another text of a message, a new message, a reply's beginning.

The editor lies over the message that it changes, or below the one that it follows; the rows keep
that much room (`MessageItem.room`, `room_below`). What must hold: what was typed is never lost by
leaving, nor by a crash; it is handed to the desk's `Edits` with each change, and is there again
when the same editor is opened. An editor closes when what it holds was taken and stays where it was
refused; what it held is kept until it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent, QTextCursor
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.conversations.edits import Edit, Edits
from models.records import Attachment, Role
from ui.chat.message_edit import clean_text, whole_text
from ui.look.theme import Theme
from ui.shell.keys import shown_key
from ui.widgets.check_box import CheckBox
from ui.widgets.combo import Combo
from ui.widgets.kit import push_button

if TYPE_CHECKING:
    from ui.chat.composer_chips import ChipRow
    from ui.pictures.thumbnails import Thumbnails
    from ui.transcript.view import TranscriptView

SEND_KEY = "Ctrl+Return"
LEAST_LINES = 2
MOST_SHARE = 0.8
MOST_THOUGHTS = 6
GAP_PX = 8


@dataclass(frozen=True, slots=True)
class Choice:
    """A button: what it is called and what it does with the text."""

    name: str
    label: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """What an editor is for. The first choice is the one of the send key.

    `n_following`: so many messages follow, which may be kept in view; `role`: it can be chosen,
    and is this one at first. `is_below`: it stands below the message, else in its place.
    `reasoning`: what comes before the text, in a field of its own where there is any, or may be
    some (`has_reasoning`).
    `attachments`: what goes along with the text, each of which can be removed.
    """

    name: str
    title: str
    choices: tuple[Choice, ...]
    text: str = ""
    n_following: int = 0
    role: Role | None = None
    is_below: bool = False
    reasoning: str = ""
    has_reasoning: bool = False
    attachments: tuple[Attachment, ...] = ()


class MessageEditor(QFrame):
    """A field, and what can be done with what is in it. `decided`: a choice's name, or empty.
    `attachment_opened`: one of its attachments is to be read."""

    decided = Signal(str)
    attachment_opened = Signal(str)
    changed = Signal()
    grown = Signal()

    def __init__(
        self,
        theme: Theme,
        task: Task,
        parent: QWidget | None = None,
        thumbnails: Thumbnails | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.thumbnails = thumbnails
        self._shared: tuple[bool, bool] | None = None
        self._last_hint = QSize()
        self.task = task
        self.setObjectName("message_editor")
        self.setAccessibleName(task.title)
        self.title = QLabel(task.title, self)
        self.title.setProperty("kind", "small")
        self.edit = self._field(task.text, "message_editor_text", task.title)
        self.thoughts: QPlainTextEdit | None = None
        self.thoughts_title = QLabel("Reasoning", self)
        self.thoughts_title.setProperty("kind", "small")
        has_thoughts = bool(task.reasoning) or task.has_reasoning
        self.thoughts_title.setVisible(has_thoughts)
        if has_thoughts:
            self.thoughts = self._field(
                task.reasoning, "message_editor_reasoning", "Reasoning before the reply"
            )
        self.attachments = task.attachments
        self.chips = self._chip_row() if task.attachments else None
        self.put_back = self._put_back_button()
        self.roles = self._role_box() if task.role is not None else None
        self.keep = self._keep_box() if task.n_following else None
        self.buttons = [self._button(choice) for choice in task.choices]
        self.cancel = self._button(Choice("", "Cancel", "Esc"))
        self._arrange()
        theme.changed.connect(self._on_theme_changed)
        self._on_text_changed()

    @property
    def text(self) -> str:
        return _text_in(self.edit, self.task.text)

    @property
    def reasoning(self) -> str:
        if self.thoughts is None:
            return ""
        return _text_in(self.thoughts, self.task.reasoning)

    @property
    def has_words(self) -> bool:
        """A reply may be reasoning alone."""
        return bool(self.text.strip() or self.reasoning.strip())

    @property
    def is_changed(self) -> bool:
        task = self.task
        now = (self.text, self.reasoning, self.attachments)
        return now != (task.text, task.reasoning, task.attachments)

    @property
    def edit_made(self) -> Edit:
        """What differs from the message, to be kept while it is not decided."""
        kept = {each.id for each in self.attachments}
        removed = tuple(each.id for each in self.task.attachments if each.id not in kept)
        return Edit(self.text, self.reasoning, removed)

    def restore(self, edit: Edit) -> None:
        """What was typed, and removed, before."""
        self.edit.setPlainText(edit.text)
        if self.thoughts is not None:
            self.thoughts.setPlainText(edit.reasoning)
        for attachment_id in edit.removed:
            self._remove_attachment(attachment_id)

    @property
    def keeps_following(self) -> bool:
        return self.keep is not None and self.keep.isChecked()

    @property
    def role(self) -> Role:
        return Role(self.roles.currentData()) if self.roles is not None else Role.USER

    def focus(self) -> None:
        """Into the field, behind what is there."""
        self.edit.moveCursor(QTextCursor.MoveOperation.End)
        self.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def wanted_height(self, most: int) -> int:
        """High enough for the text, within bounds."""
        lines = max(LEAST_LINES, round(self.edit.document().size().height()))
        field = lines * self.edit.fontMetrics().lineSpacing() + self._theme.px(20)
        if self.thoughts is not None:
            lines = min(MOST_THOUGHTS, round(self.thoughts.document().size().height()))
            line = self.thoughts.fontMetrics().lineSpacing()
            self.thoughts.setFixedHeight(
                min(lines * line + self._theme.px(22), max(2 * line, most // 4))
            )
        rest = self._column.sizeHint().height() - self.edit.sizeHint().height()
        return max(rest + self._theme.px(60), min(rest + field, most))

    def _field(self, text: str, name: str, title: str) -> QPlainTextEdit:
        field = QPlainTextEdit(text, self)
        field.setObjectName(name)
        field.setAccessibleName(title)
        field.setTabChangesFocus(True)
        field.setFrameShape(QFrame.Shape.NoFrame)
        field.textChanged.connect(self._on_text_changed)
        field.installEventFilter(self)
        return field

    def _chip_row(self) -> ChipRow:
        # Imported here: few messages have attachments.
        from ui.chat.composer_chips import ChipRow

        row = ChipRow(self._theme, self, self.thumbnails)
        row.setAccessibleName("Attachments of this message")
        row.set_attachments(self.task.attachments)
        row.opened.connect(self.attachment_opened)
        row.removed.connect(self._remove_attachment)
        row.wanted_as_text.connect(self._put_into_text)
        row.left.connect(self.focus)
        return row

    def _put_back_button(self) -> QPushButton:
        """The way back from a removal: leaving keeps it as it keeps what was typed."""
        button = push_button("", self, "message_editor_put_back", kind="quiet", act=self._put_back)
        button.hide()
        return button

    def _put_back(self) -> None:
        self._set_attachments(self.task.attachments)
        if self.chips is not None:
            self.chips.chips()[0].setFocus(Qt.FocusReason.OtherFocusReason)

    def _remove_attachment(self, attachment_id: str) -> None:
        self._set_attachments(tuple(each for each in self.attachments if each.id != attachment_id))

    def _set_attachments(self, attachments: tuple[Attachment, ...]) -> None:
        self.attachments = attachments
        if self.chips is not None:
            self.chips.set_attachments(attachments)
        n_removed = len(self.task.attachments) - len(attachments)
        noun = "attachment" if n_removed == 1 else f"{n_removed:,} attachments"
        self.put_back.setText(f"Restore {noun}")
        self.put_back.setAccessibleName(self.put_back.text())
        self.put_back.setVisible(n_removed > 0)
        self._put_in_order()
        self._on_text_changed()

    def _put_into_text(self, attachment_id: str) -> None:
        found = next((each for each in self.attachments if each.id == attachment_id), None)
        if found is not None:
            self.edit.insertPlainText(clean_text(found.text))
            self._remove_attachment(attachment_id)

    def _role_box(self) -> Combo:
        box = Combo(self._theme, self)
        box.setObjectName("message_editor_role")
        box.setAccessibleName("Role")
        box.addItem("You", Role.USER.value)
        box.addItem("Assistant", Role.ASSISTANT.value)
        box.setCurrentIndex(box.findData(self.task.role.value if self.task.role else ""))
        return box

    def _keep_box(self) -> CheckBox:
        count = self.task.n_following
        words = "the message below" if count == 1 else f"the {count:,} messages below"
        box = CheckBox(self._theme, f"Keep {words} when saving", self)
        box.setObjectName("message_editor_keep")
        box.setToolTip("Copies them below the new version. The old version keeps its own.")
        box.setChecked(True)
        return box

    def _button(self, choice: Choice) -> QPushButton:
        is_first = choice == self.task.choices[0]
        tip = shown_key(SEND_KEY) if is_first else ""
        return push_button(
            choice.label,
            self,
            f"message_editor_{choice.name or 'cancel'}",
            kind="primary" if is_first else "quiet",
            spoken=choice.label,
            hint=" · ".join(part for part in (choice.tip, tip) if part),
            act=lambda: self.decided.emit(choice.name),
        )

    def _arrange(self) -> None:
        self._column = QVBoxLayout(self)
        self._head = QHBoxLayout()
        self._head.addWidget(self.title, 1)
        self._head.addWidget(self.put_back)
        if self.roles is not None:
            self._head.addWidget(self.roles)
        self._upper_row, self._row = QHBoxLayout(), QHBoxLayout()
        self._row.addStretch(1)
        self._row.addWidget(self.cancel)
        for button in reversed(self.buttons):
            self._row.addWidget(button)
        self._column.addLayout(self._head)
        if self.thoughts is not None:
            self._column.addWidget(self.thoughts_title)
            self._column.addWidget(self.thoughts)
        if self.chips is not None:
            self._column.addWidget(self.chips)
        self._column.addWidget(self.edit, 1)
        self._column.addLayout(self._upper_row)
        self._column.addLayout(self._row)
        theme = self._theme
        theme.space(self._column, 6, margins=(12, 10, 12, 12))
        for row in (self._head, self._upper_row, self._row):
            theme.space(row, 8)
        # The text of a field stands a little within it: captions and boxes stand above that.
        inset = round(self.edit.document().documentMargin())
        for label in (self.title, self.thoughts_title):
            label.setContentsMargins(inset, 0, 0, 0)
        theme.font(self.edit, Theme.font_reply)
        if self.thoughts is not None:
            theme.font(self.thoughts, Theme.font_text)
        theme.sheet(self, _sheet)
        self._share_rows(0)
        self._put_in_order()

    def _put_in_order(self) -> None:
        for first, second in pairwise(self._stops()):
            QWidget.setTabOrder(first, second)

    def _share_rows(self, width: int) -> None:
        """All in one row where there is room, else what is not a choice in a row above."""
        space = self._theme.px(8)
        kept = [self.keep] if self.keep is not None else []
        room = width - self._theme.px(24)
        choices = sum(button.sizeHint().width() + space for button in self.buttons)
        cancel = self.cancel.sizeHint().width() + space
        keep = sum(box.sizeHint().width() + 2 * space for box in kept)
        has_cancel = room >= choices + cancel
        has_kept = room >= choices + cancel + keep
        if self._shared == (has_cancel, has_kept):
            return
        self._shared = (has_cancel, has_kept)
        for widget in (*kept, self.cancel):
            self._row.removeWidget(widget)
            self._upper_row.removeWidget(widget)
        if has_cancel:
            self._row.insertWidget(1, self.cancel)
        else:
            self._upper_row.addWidget(self.cancel, 0, Qt.AlignmentFlag.AlignRight)
        for box in kept:
            if has_kept:
                self._row.insertWidget(0, box)
            else:
                self._upper_row.insertWidget(0, box, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._share_rows(event.size().width())
            self.grown.emit()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._share_rows(self.width())  # buttons have their real sizes only now
            hint = self._column.sizeHint()
            if hint != self._last_hint:
                self._last_hint = hint
                self.grown.emit()
        return super().event(event)

    def _stops(self) -> list[QWidget]:
        """In the order of Tab: from the field to what is done most."""
        extra = [box for box in (self.roles, self.keep) if box is not None]
        fields: list[QWidget] = [field for field in (self.thoughts, self.edit) if field is not None]
        if self.chips is not None:
            fields[-1:] = [self.put_back, *self.chips.chips(), self.edit]
        return [*fields, *self.buttons, *extra, self.cancel]

    def _on_theme_changed(self) -> None:
        self._share_rows(self.width())
        self.grown.emit()

    def _on_text_changed(self) -> None:
        has_text = self.has_words or bool(self.attachments) or self.task.name == "begin"
        for button in self.buttons:
            button.setEnabled(has_text)
        self.changed.emit()
        self.grown.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
            if is_enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                if self.buttons[0].isEnabled():
                    self.decided.emit(self.task.choices[0].name)
                return True
        return super().eventFilter(watched, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape leaves; no other key shall reach the transcript below."""
        if event.key() == Qt.Key.Key_Escape:
            self.decided.emit("")
        event.accept()


def _sheet(theme: Theme) -> str:
    px, colors = theme.px, theme.colors
    return (
        f"#message_editor {{ background: {colors.card}; border: 1px solid {colors.accent};"
        f" border-radius: {px(12)}px; }}"
        f"#message_editor_text {{ background: transparent; border: none; padding: 0; }}"
        f"#message_editor_reasoning {{ background: {colors.chat}; color: {colors.dim};"
        f" border: none; border-radius: {px(8)}px; padding: {px(4)}px {px(8)}px; }}"
    )


def _text_in(edit: QPlainTextEdit, before: str) -> str:
    """What stands there; what was there before, if only the field holds it otherwise."""
    text = whole_text(edit)
    return before if text == clean_text(before) else text


Decide = Callable[[str, MessageEditor, Callable[[], None]], bool]
"""Gets a choice, the editor, and what to call when that is on disk. False: it was refused."""


class Editing(QObject):
    """The one editor of a transcript, and where it stands."""

    def __init__(self, view: TranscriptView, edits: Edits) -> None:
        super().__init__(view)
        self._view = view
        self._edits = edits
        self._message_id = ""
        self._decide: Decide | None = None
        self._is_placing = False
        self.editor: MessageEditor | None = None
        view.settled.connect(self._place)

    def open(self, message_id: str, task: Task, decide: Decide) -> None:
        """Show an editor at a message; `decide` gets each choice, until one is taken."""
        self.close()
        if self._view.rows.index_of(message_id) is None:
            return
        self._message_id, self._decide = message_id, decide
        editor = MessageEditor(self._view.theme, task, self._view.viewport(), self._view.thumbnails)
        kept = self._edits.of(task.name, message_id)
        if kept is not None:
            editor.restore(kept)
        self.editor = editor
        editor.changed.connect(self._keep)
        editor.decided.connect(self._on_decided)
        editor.attachment_opened.connect(self._view.attachment_opened)
        editor.grown.connect(self._place)
        editor.show()
        self._place()
        self._bring_into_view()
        editor.focus()

    def close(self) -> None:
        """Leave; what was typed is kept."""
        self._remove()

    def _keep(self) -> None:
        editor = self.editor
        if editor is not None:
            is_other = editor.is_changed and (editor.has_words or bool(editor.attachments))
            kept = editor.edit_made if is_other else None
            self._edits.keep(editor.task.name, self._message_id, kept)

    def _on_decided(self, choice: str) -> None:
        editor, decide, message_id = self.editor, self._decide, self._message_id
        if editor is None or decide is None:
            return
        if not choice:
            self.close()
            return

        saved = partial(self._edits.drop, editor.task.name, message_id, editor.edit_made)
        if decide(choice, editor, saved) and self.editor is editor:
            self._remove()

    def _remove(self) -> None:
        editor, self.editor = self.editor, None
        if editor is None:
            return
        had_focus = editor.isAncestorOf(editor.window().focusWidget() or self._view)
        editor.hide()
        editor.deleteLater()
        self._view.make_room(self._message_id)
        if had_focus:
            index = self._view.rows.index_of(self._message_id)
            if index is not None:
                self._view.keyboard.put_on(index)
            self._view.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _place(self) -> None:
        """Bring room and editor into line; called whenever rows or text may have moved."""
        editor, view = self.editor, self._view
        if editor is None or self._is_placing:
            return
        index = view.rows.index_of(self._message_id)
        if index is None:
            self.close()
            return
        self._is_placing = True
        editor.resize(round(view.rows.width), editor.height())
        most = round(view.viewport().height() * MOST_SHARE)
        height = editor.wanted_height(most)
        gap = view.theme.px(GAP_PX)
        if editor.task.is_below:
            view.make_room(self._message_id, below=height + gap)
            top = view.rows.item(index).height - height - view.theme.px(24)
        else:
            view.make_room(self._message_id, instead=height)
            top = 0
        corner = view.item_origin(index).toPoint() + QPoint(0, round(top))
        editor.setGeometry(QRect(corner.x(), corner.y(), round(view.rows.width), height))
        editor.raise_()
        self._is_placing = False

    def _bring_into_view(self) -> None:
        editor, view = self.editor, self._view
        if editor is None:
            return
        bar, height = view.verticalScrollBar(), view.viewport().height()
        margin = view.theme.px(GAP_PX)
        if editor.geometry().bottom() > height - margin:
            bar.setValue(bar.value() + editor.geometry().bottom() - height + margin)
        elif editor.y() < margin:
            bar.setValue(bar.value() + editor.y() - margin)
