"""Where a message is written: a field that grows, what goes along, what waits, Send and Stop.

What must hold: what the user wrote is never dropped, whatever is pressed; while a reply is being
written Enter queues the message behind it; and a message waits for what was pasted or dropped to go
along with it. What the prompt costs is said in the status line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QMetaMethod, QMimeData, Qt, Signal
from PySide6.QtGui import QMouseEvent, QTextCursor
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ui.chat.message_edit import (
    LONG_PASTE as LONG_PASTE,
    MessageEdit as MessageEdit,
    clean_text as clean_text,
    wrap_long_lines,
)
from ui.look.theme import Theme
from ui.widgets.click_focus import leave_focus
from ui.widgets.elided import PartsLabel

if TYPE_CHECKING:
    from app.chat.events import QueuedMessage
    from models.records import Attachment
    from ui.chat.composer_chips import ChipRow
    from ui.chat.composer_queue import QueueList
    from ui.pictures.thumbnails import Thumbnails

SEND_KEYS = ("enter", "ctrl_enter")
MAX_WIDTH = 720
ATTACH_KEY = "Ctrl+Shift+A"
ROW_PX = 32
"""As high as an icon's button, which comes after the first paint: nothing moves then."""


class _Card(QFrame):
    """It looks like the field, so a click beside the text is meant for the field. (A focus proxy
    that is a child of its widget would end the way of Tab here.)"""

    def __init__(self, edit: MessageEdit) -> None:
        super().__init__()
        self.setObjectName("composer_card")
        self._edit = edit

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._edit.setFocus(Qt.FocusReason.MouseFocusReason)


class Composer(QWidget):
    """The card at the bottom of a chat, with the queue above it.

    `send_requested` carries the text, `queue_requested` too where a reply is being generated; the
    field is cleared by then. Meanwhile Send is Stop, and Escape stops; both stop a document that
    takes long to be read, too.

    It belongs to the first paint, so what an empty field does not need (chips, the queue, icons)
    is imported and built when it is first asked for.
    """

    send_requested = Signal(str)
    queue_requested = Signal(str)
    stop_requested = Signal()
    reading_stopped = Signal()
    draft_changed = Signal(str)
    long_pasted = Signal(str)
    files_given = Signal(list)
    picture_given = Signal(QMimeData)
    attach_requested = Signal()
    attachment_opened = Signal(str)
    attachment_removed = Signal(str)
    attachment_wanted_as_text = Signal(str)
    page_source_wanted = Signal(str)
    queued_edit_begun = Signal(str)
    queued_typed = Signal(str, str)
    queued_changed = Signal(str, str)
    queued_removed = Signal(str)
    send_next_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._is_generating = False
        self._is_drop_near = False
        self._is_temporary = False
        self._is_setting = False
        self._is_coming = False
        self._reading = ""
        self._asked: list[int] = []
        self._asked_text = ""
        self._history: Callable[[], Sequence[str]] = tuple
        self._recalled: tuple[Sequence[str], int] = ((), 0)
        self._chips: ChipRow | None = None
        self._queue: QueueList | None = None
        self._thumbnails: Thumbnails | None = None
        self._attach_button: QPushButton | None = None
        self._controls: list[QPushButton] = []
        self._above: list[QWidget] = []
        self._build()
        self._connect()
        theme.space(self._inside, 8, margins=(16, 12, 12, 12))
        theme.space(self._row, 8)
        theme.at_most(self._column, MAX_WIDTH)
        theme.font(self._edit, Theme.font_reply)
        theme.font(self._hint, Theme.font_small)
        for button in (self._send_button, self._stop_button, self._queue_button):
            theme.at_least(button, height=ROW_PX)
        self._dress()
        self._update_state()

    # What the window uses

    def text(self) -> str:
        return self._edit.text()

    def set_text(self, text: str, *, is_same_chat: bool = False) -> None:
        """Replace the text (a draft), the caret behind it. `draft_changed` stays silent.
        `is_same_chat`: what was to be sent from it still is.

        Where only something comes before the text, that stays as it is with its caret: somebody
        may be writing it.
        """
        if not is_same_chat:
            self._asked = []
        old, text = self.text(), clean_text(text)
        if text == old:
            return
        self._is_setting = True
        wrap_long_lines(self._edit, text)
        if old and text.endswith(old):
            QTextCursor(self._edit.document()).insertText(text.removesuffix(old))
            self._edit.ensureCursorVisible()
        else:
            self._edit.setPlainText(text)
            self._edit.moveCursor(self._edit.textCursor().MoveOperation.End)
        self._is_setting = False
        self._update_state()

    def insert_text(self, text: str) -> None:
        """Put a text where the caret is, as typing does."""
        text = clean_text(text)
        wrap_long_lines(self._edit, text)
        self._edit.insertPlainText(text)
        self._edit.ensureCursorVisible()

    def set_history(self, history: Callable[[], Sequence[str]]) -> None:
        """What ↑ brings back in an empty field: the messages of the chat, oldest first."""
        self._history = history

    def complete(self) -> None:
        """The window is there: build what the first paint could do without."""
        from ui.shell.keys import with_key
        from ui.widgets.icon_button import IconButton

        attach = IconButton(
            self._theme,
            "paperclip",
            "Attach files",
            hint=with_key("Attach files", ATTACH_KEY),
        )
        attach.setObjectName("attach_button")
        attach.clicked.connect(self.attach_requested)
        leave_focus(attach, to=self.focus)
        # Right of the words, so that nothing moves when it comes.
        place = self._row.indexOf(self._hint) + 1
        self._row.insertWidget(place, attach, 0, Qt.AlignmentFlag.AlignBottom)
        self._attach_button = attach
        self.put_in_order()

    def add_control(self, button: QPushButton) -> None:
        """Another button for the row, right of the words."""
        leave_focus(button)
        place = self._row.indexOf(self._hint) + 1
        self._row.insertWidget(place, button, 0, Qt.AlignmentFlag.AlignBottom)
        self._controls.insert(0, button)
        self.put_in_order()

    def put_in_order(self) -> None:
        """Tab goes as the eye does, also to what was built after the field."""
        from ui.shell.tab_order import put_in_order, stops_in

        above = (*stops_in(self._queue), *stops_in(self._chips))
        above += tuple(stop for widget in self._above for stop in stops_in(widget))
        buttons = (
            *self._controls,
            self._attach_button,
            self._queue_button,
            self._send_button,
            self._stop_button,
        )
        below = [button for button in buttons if button is not None]
        put_in_order([*above, self._edit, *below], self._edit)

    @property
    def chips(self) -> ChipRow:
        if self._chips is None:
            from ui.chat.composer_chips import ChipRow

            self._chips = ChipRow(self._theme, thumbnails=self._thumbnails)
            self._chips.left.connect(self.focus)
            self._chips.opened.connect(self.attachment_opened)
            self._chips.removed.connect(self.attachment_removed)
            self._chips.wanted_as_text.connect(self.attachment_wanted_as_text)
            self._chips.wanted_source.connect(self.page_source_wanted)
            self._inside.insertWidget(0, self._chips)
        return self._chips

    @property
    def queue(self) -> QueueList:
        if self._queue is None:
            from ui.chat.composer_queue import QueueList

            self._queue = QueueList(self._theme)
            self._queue.left.connect(self.focus)
            self._queue.edit_begun.connect(self.queued_edit_begun)
            self._queue.typed.connect(self.queued_typed)
            self._queue.changed.connect(self.queued_changed)
            self._queue.removed.connect(self.queued_removed)
            self._queue.send_requested.connect(self.send_next_requested)
            self._stack.insertWidget(0, self._queue)
        return self._queue

    def add_above(self, widget: QWidget) -> None:
        """Something that belongs to the chips, below them."""
        self._above.append(widget)
        self._inside.insertWidget(1 if self._chips is not None else 0, widget)
        self.put_in_order()

    @property
    def _has_attachments(self) -> bool:
        return self._chips is not None and bool(self._chips.chips())

    def set_attachments(
        self, attachments: Sequence[Attachment], is_coming: bool = False, is_refused: bool = False
    ) -> None:
        """What goes along. `is_coming`: more is on its way; `is_refused`: one that was will not
        come, so that whoever has pressed Enter by now may want to write otherwise."""
        self._is_coming = is_coming
        if not is_coming:
            self._reading = ""
        if attachments or self._chips is not None:
            self.chips.set_attachments(attachments)
            self.put_in_order()
        if is_refused:
            self._asked = []
        if self._asked and not is_coming:
            self._send_asked()
        self._update_state()

    def set_reading(self, words: str) -> None:
        """How far what is coming is read."""
        self._reading = words
        self._update_state()

    @property
    def is_reading(self) -> bool:
        """Whether something that was attached takes long to be read."""
        return bool(self._reading)

    def set_thumbnails(self, thumbnails: Thumbnails) -> None:
        """What the chips show of pictures. Before there is a chip."""
        self._thumbnails = thumbnails

    def set_queue(self, messages: Sequence[QueuedMessage], is_held: bool) -> None:
        if messages or self._queue is not None:
            self.queue.set_messages(messages, is_held)
            self.put_in_order()
            self.updateGeometry()

    def set_temporary(self, is_temporary: bool) -> None:
        """Whether the chat is one that is never written; the card says so."""
        self._is_temporary = is_temporary
        self._edit.setPlaceholderText("Message (not saved)" if is_temporary else "Message")
        self._dress()

    def set_generating(self, is_generating: bool) -> None:
        self._is_generating = is_generating
        self._update_state()

    def set_send_key(self, name: str) -> None:
        """enter: Enter sends, Shift+Enter breaks. ctrl_enter: Ctrl+Enter sends, Enter breaks."""
        if name not in SEND_KEYS:
            raise ValueError(f"unknown send key {name!r}")
        self._edit.send_key = name
        self._update_state()

    def show_drop(self, is_near: bool) -> None:
        """Whether what is dragged would be attached here if it were let go of now."""
        if is_near != self._is_drop_near:
            self._is_drop_near = is_near
            self._dress()

    def focus(self) -> None:
        self._edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def send(self) -> None:
        """What Enter and the button do: send, or queue behind the reply that grows."""
        text = self.text()
        has_more = self._has_attachments or self._is_coming
        if not (text.strip() or has_more):
            return
        if self._is_coming:
            self._asked.append(len(text))
            self._asked_text = text
            self._update_state()
            return
        self._edit.clear()
        self._emit(text)

    def _emit(self, text: str) -> None:
        asked = self.queue_requested if self._is_generating else self.send_requested
        asked.emit(text)

    def _send_asked(self) -> None:
        """What belongs to it has come: each message ends where Enter was pressed; what was typed
        behind the last one stays."""
        text, ends = self.text(), self._asked
        self._asked = []
        self._edit.clear()
        self.insert_text(text[ends[-1] :])
        for start, end in pairwise((0, *ends)):
            if start == 0 or text[start:end].strip():
                self._emit(text[start:end])

    # Building

    def _build(self) -> None:
        self._edit = MessageEdit()
        self._hint = PartsLabel()
        self._hint.setObjectName("composer_hint")
        self._hint.setProperty("kind", "small")
        self._hint.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._send_button = _button("Send", "send_button", "primary")
        self._queue_button = _button("Queue", "queue_button", "plain")
        self._queue_button.setToolTip("Send when this reply is finished (Enter)")
        self._stop_button = _button("Stop", "stop_button", "stop")
        self._card = _Card(self._edit)
        self._row = QHBoxLayout()
        self._row.addWidget(self._hint, 1)
        for button in (self._queue_button, self._send_button, self._stop_button):
            self._row.addWidget(button, 0, Qt.AlignmentFlag.AlignBottom)
        self._inside = QVBoxLayout(self._card)
        self._inside.addWidget(self._edit)
        self._inside.addLayout(self._row)
        self._column = QWidget()
        self._stack = QVBoxLayout(self._column)
        self._stack.setContentsMargins(0, 0, 0, 0)
        self._stack.setSpacing(0)
        self._stack.addWidget(self._card)
        outside = QHBoxLayout(self)
        outside.setContentsMargins(0, 0, 0, 0)
        outside.addStretch(0)
        outside.addWidget(self._column, 1000)
        outside.addStretch(0)
        self.setFocusProxy(self._edit)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def _connect(self) -> None:
        edit = self._edit
        edit.submitted.connect(self.send)
        edit.stopped.connect(self._on_stop)
        edit.textChanged.connect(self._on_text_changed)
        edit.height_changed.connect(self.updateGeometry)
        edit.long_pasted.connect(self._on_long_pasted)
        edit.files_given.connect(self.files_given)
        edit.picture_given.connect(self.picture_given)
        edit.dragged_over.connect(self.show_drop)
        edit.recalled.connect(self._on_recalled)
        self._send_button.clicked.connect(self.send)
        self._queue_button.clicked.connect(self.send)
        self._stop_button.clicked.connect(self._on_stop)
        leave_focus(self._send_button, self._queue_button, self._stop_button, to=self.focus)
        self._theme.changed.connect(self._dress)

    def _dress(self) -> None:
        theme, c = self._theme, self._theme.colors
        small = theme.font_text().pixelSize()
        # A chat that is not kept has a frame of dashes: seen without reading, in any colours.
        line = f"2px dashed {c.accent}" if self._is_temporary else f"1px solid {c.line}"
        if self._is_drop_near:
            line = f"2px solid {c.accent}"
        plane = c.accent_tone if self._is_drop_near else c.card
        self.setStyleSheet(
            f"""
            #composer_card {{
                background: {plane}; border: {line};
                border-radius: {theme.px(14)}px;
            }}
            #composer {{
                background: transparent; border: none; padding: 0; color: {c.ink};
                selection-background-color: {c.selection}; selection-color: {c.ink};
                font-size: {theme.font_reply().pixelSize()}px;
            }}
            #composer_hint {{ color: {c.dim}; background: transparent; }}
            #send_button, #stop_button, #queue_button {{
                border-radius: {theme.px(8)}px; font-size: {small}px; font-weight: 600;
                padding: {theme.px(6)}px {theme.px(14)}px; border: 2px solid transparent;
            }}
            #send_button {{ background: {c.accent}; color: {c.on_accent}; }}
            #send_button:hover {{ background: {c.accent_hover}; }}
            #send_button:disabled {{ background: {c.hover}; color: {c.dim}; }}
            #stop_button {{ background: {c.accent_tone}; color: {c.accent}; }}
            #queue_button {{ background: {c.hover}; color: {c.ink}; }}
            #send_button:focus {{ border-color: {c.ink}; }}
            #stop_button:focus, #queue_button:focus {{ border-color: {c.accent}; }}
            """
        )
        self._edit.updateGeometry()

    # Following

    def _on_text_changed(self) -> None:
        text = self.text()
        if self._asked and not text.startswith(self._asked_text):
            self._asked = []  # what was to be sent is being changed
        self._update_state(text)
        if not self._is_setting:
            self.draft_changed.emit(text)

    def _on_long_pasted(self, text: str) -> None:
        """Before the window is whole nobody makes an attachment of it: then it stays a text."""
        if self.isSignalConnected(QMetaMethod.fromSignal(self.long_pasted)):
            self.long_pasted.emit(text)
        else:
            self.insert_text(text)

    def _on_stop(self) -> None:
        if self._is_generating:
            self.stop_requested.emit()
        elif self._reading:
            self.reading_stopped.emit()

    def _on_recalled(self, step: int) -> None:
        """↑ and ↓: through what was sent in this chat, and past the last one to an empty field."""
        texts, place = self._recalled
        if not self.text():
            texts = [text for text in self._history() if text]
            place = len(texts)
        wanted = place + step
        if not 0 <= wanted <= len(texts):
            return
        self._recalled = (texts, wanted)
        self._edit.show_recalled(texts[wanted] if wanted < len(texts) else "")

    def _update_state(self, text: str | None = None) -> None:
        """Show what can be done now. `text`: what is in the field, where that is known."""
        buttons = (self._send_button, self._stop_button, self._queue_button)
        focused = next((button for button in buttons if button.hasFocus()), None)
        text = self.text() if text is None else text
        has_words = bool(text) and not text.isspace()
        can_send = has_words or self._has_attachments
        self._send_button.setVisible(not self._is_generating)
        self._stop_button.setVisible(self._is_generating or self.is_reading)
        what = "the reply" if self._is_generating else "reading"
        self._stop_button.setToolTip(f"Stop {what} (Esc)")
        self._queue_button.setVisible(self._is_generating and can_send)
        self._send_button.setEnabled(can_send)
        self._hint.set_text(self._hint_text(can_send))
        if focused is not None and not focused.hasFocus():
            # Qt's choice would be the button beside it: a space would stop the reply.
            self._edit.setFocus()

    def _hint_text(self, can_send: bool) -> str:
        is_enter = self._edit.send_key == "enter"
        if self._asked and self._reading:
            return f"{self._reading} · Sends when it is ready"
        if self._asked:
            return "Sends as soon as the attachment is ready"
        if self._reading:
            return self._reading if self._is_generating else f"{self._reading} · Esc to stop"
        if self._is_generating:
            queues = f"{'Enter' if is_enter else 'Ctrl+Enter'} to queue · " if can_send else ""
            return f"{queues}Esc to stop"
        return (
            ("Enter to send · Shift+Enter for a new line")
            if is_enter
            else "Ctrl+Enter to send · Enter for a new line"
        )


def _button(text: str, name: str, kind: str) -> QPushButton:
    button = QPushButton(text)
    button.setObjectName(name)
    button.setAccessibleName(text)
    button.setProperty("kind", kind)
    return button
