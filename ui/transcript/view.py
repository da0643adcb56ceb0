"""The transcript: a conversation's messages, laid out and painted only where they are in view.

`RowsArea` knows where the messages stand; here is what is shown, painted and done with them.
What must hold: opening costs a guess per message and the layout of one screen; repaints while
streaming stay at or below thirty a second, fewer where one is dear.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from models.records import Message, MessageState, Role
from ui.look.theme import Theme
from ui.markdown.formulas import Formulas
from ui.markdown.layouts import Pressable
from ui.transcript import access
from ui.transcript.area import RowsArea
from ui.transcript.coloring import Coloring
from ui.transcript.finding import Finder
from ui.transcript.item import GAP_BELOW, ItemLook
from ui.transcript.keyboard import Keyboard
from ui.transcript.offers import COPY, Offer, offers
from ui.transcript.pace import PaintPace
from ui.transcript.part_pills import part_of
from ui.transcript.pointer import Pointer
from ui.transcript.reading import SliceReader
from ui.transcript.selection import MIXED, selected_text
from ui.transcript.sliding import Sliding
from ui.transcript.tokens.mode import TokenMode
from ui.transcript.word_choice import WordChoice

if TYPE_CHECKING:
    from ui.pictures.thumbnails import Thumbnails
from ui.widgets.kit import show_tip

DONE_MS = 1500


class TranscriptView(RowsArea):
    """Shows a conversation's messages.

    `link_activated` is the only thing a link does. `copied` carries what went to the
    clipboard. `current_changed` names the message that the keyboard is on. `act_requested`: the
    name of what a message offers (`offers.py`) and the message's id. While a reply grows
    (`is_locked`) only what changes no path is offered.
    """

    retry_requested = Signal(str)
    act_requested = Signal(str, str)
    new_chat_requested = Signal()
    version_step_requested = Signal(str, int)
    link_activated = Signal(str)
    attachment_opened = Signal(str)
    part_opened = Signal(str, int)
    copied = Signal(str)
    current_changed = Signal(str)
    typed = Signal(str)
    """What is written while the keyboard is on no message: it is meant for the composer."""

    def __init__(
        self, theme: Theme, parent: QWidget | None = None, *, formulas: Formulas | None = None
    ) -> None:
        super().__init__(theme, formulas, parent)
        self.setObjectName("transcript")
        self.setAccessibleName("Conversation")
        access.install()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self._grown: set[str] = set()
        self._done: tuple[int, Pressable] | None = None
        self._marked_id = ""
        self.is_locked = False
        self.repaints = 0
        self._timer = self._single_shot(self._flush)
        self._done_timer = self._single_shot(self._on_done_over)
        self._coloring = Coloring(self, self.settle)
        self._reading = SliceReader(self, self.settle)
        self.sliding = Sliding(self)
        self.keyboard = Keyboard(self, self.sliding, self)
        self.tokens = TokenMode(self, self.keyboard)
        self.words = WordChoice(self)
        self.finder = Finder(self, self.tokens)
        self.pointer = Pointer(self, self.sliding, self.tokens, self.words, self)
        self._pace = PaintPace(self, self.tokens)
        self.keyboard.moved.connect(self.current_changed)
        self.keyboard.typed.connect(self.typed)
        self.pointer.link_clicked.connect(self.link_activated)

    # What the window uses

    def set_thumbnails(self, thumbnails: Thumbnails) -> None:
        """Where the pictures of messages come from."""
        thumbnails.arrived.connect(self.viewport().update)
        self.thumbnails = self._styles.thumbnails = thumbnails
        self.viewport().update()

    def set_conversation(self, messages: Sequence[Message]) -> None:
        """Show this path. Messages that were there before keep their place and state."""
        top_id = self._anchor.message_id()
        former = self.keyboard.message()
        n_same = self.rows.set_messages(messages)
        self.selection = None
        self.keyboard.stay_on(former)
        self.pointer.reset()
        self._grown.clear()
        if not self._anchor.move_to(top_id):
            self._anchor.stay()
            self._sticks = self._sticks or not n_same
        self._show_news(False)
        if messages:
            self._coloring.warm_up()
        self._settle()
        self.finder.restart(goes=False)

    def add_earlier(self, messages: Sequence[Message]) -> None:
        """More of the same path, above what is shown. Nothing that is in view moves."""
        count = len(messages)
        self.rows.prepend(messages)
        self._anchor.move_by(count)
        self.keyboard.move_by(count)
        self.pointer.move_by(count)
        self.finder.move_by(count)
        if self.selection is not None:
            self.selection = self.selection.moved_by(count)
        if self._done is not None:
            self._done = (self._done[0] + count, self._done[1])
        self.settle()

    def add_message(self, message: Message) -> None:
        """A message at the end. What the user sent is always shown."""
        if self.rows.index_of(message.id) is not None:
            self.change_message(message)
            return
        self.finder.change(self.rows.append(message))
        self._coloring.warm_up()
        if message.role is Role.USER:
            self.scroll_to_end()
        else:
            self._show_news(not self._sticks)
        self._later()

    def change_message(self, message: Message) -> None:
        """State, figures, error or text of a message."""
        index = self.rows.change(message)
        if index is None:
            return
        self.finder.change(index)
        self.tokens.change(message)
        self._later()
        if message.state is not MessageState.STREAMING:
            self._grown.discard(message.id)
            self.keyboard.announce(index)

    def append_text(self, message_id: str, text: str, part: str = "content") -> None:
        """More of a streaming reply; part: content or reasoning. Shown with the next repaint."""
        index = self.rows.index_of(message_id)
        if index is None:
            return
        self.rows.item(index).append(text, part)
        self._grown.add(message_id)
        self._later()

    def set_progress(self, message_id: str, sentence: str) -> None:
        """What a message is waiting for, in a quiet line: in the place of a reply without text
        ("Reading the prompt: 40 of 120 tokens"), below all others. Empty: nothing more."""
        index = self.rows.index_of(message_id)
        if index is not None:
            self.rows.item(index).progress = sentence
            self.rows.measure(index)
            self._later()

    def show_message(self, message_id: str) -> None:
        """Scroll so that a message begins at the top, and mark it until something is clicked."""
        index = self.rows.index_of(message_id)
        if index is not None:
            self.leave_end()
            self._marked_id = message_id
            self.keyboard.current = index
            self.scroll_to(self.rows.top(index))
            self.viewport().update()

    @property
    def is_update_due(self) -> bool:
        """Whether something arrived that is not on screen yet."""
        return self._timer.isActive()

    def selected_text(self, form: str = MIXED) -> str:
        return selected_text(self.rows, self.selection, form) if self.selection else ""

    def copy(self, form: str = MIXED) -> None:
        """Copy the selection, or the message that the keyboard is on."""
        text = self.selected_text(form)
        if not text and (index := self.keyboard.current) is not None:
            text = self.rows.item(index).source
        if text:
            self.copy_text(text)

    def copy_text(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.copied.emit(text)

    def trigger(self, index: int, action: Pressable) -> None:
        """Do what a place in a message offers."""
        message = self.rows.message(index)
        match action.name:
            case "copy_code":
                self.copy_text(action.payload)
                self._show_done(index, action)
            case "copy_message":
                self.copy_text(self.rows.item(index).source)
                self._show_done(index, action)
            case "retry" | "try_again":
                self.retry_requested.emit(message.id)
            case "more":
                corner = action.rect.bottomLeft() + self.item_origin(index)
                self.pointer.open_menu(index, self.viewport().mapToGlobal(corner.toPoint()))
            case "new_chat":
                self.new_chat_requested.emit()
            case (
                "open_attachment"
                | "open_sound"
                | "open_picture"
                | "open_counted_picture"
                | "open_more_pictures"
            ):
                self.attachment_opened.emit(action.payload)
            case "open_part" | "open_more_parts":
                self.part_opened.emit(*part_of(action.payload))
            case "version_previous" | "version_next":
                step = 1 if action.name == "version_next" else -1
                self.step_version(index, step)
            case "toggle_reasoning" | "toggle_raw":
                item = self.rows.item(index)
                (item.toggle_raw if action.name == "toggle_raw" else item.toggle_reasoning)()
                self.clear_selection()
                self._sticks = False
                self.finder.change(index)
                self.remeasure(index)
            case "open_link":
                self.link_activated.emit(action.payload)
            case _:
                self.act_requested.emit(action.name, message.id)
        self.viewport().update()

    def make_room(self, message_id: str, *, instead: float = 0, below: float = 0) -> None:
        """Keep room for a widget over a message or below it; none, without heights."""
        index = self.rows.index_of(message_id)
        if index is None:
            return
        item = self.rows.item(index)
        if (item.room, item.room_below) != (instead, below):
            item.room, item.room_below = instead, below
            self._sticks = False
            self.remeasure(index)

    def offers_of(self, index: int) -> list[Offer]:
        """What a message offers now; `LINE` between the parts."""
        if self.rows.is_bare:
            return [COPY]
        is_last, item = index == len(self.rows) - 1, self.rows.item(index)
        found = offers(self.rows.message(index), is_last=is_last, is_raw=item.is_raw)
        if item.tokens is not None:  # which is as raw as it gets
            found = [each for each in found if each.name != "toggle_raw"]
        return [each for each in found if each.is_lasting or not each.name or not self.is_locked]

    def ask_for(self, index: int, offer: Offer) -> None:
        """Do what was chosen in the menu or by its key."""
        self.trigger(index, Pressable(QRectF(), offer.name, offer.label, ""))

    def step_version(self, index: int, step: int) -> None:
        """Ask for the version before (-1) or after (+1), where there is one."""
        message = self.rows.message(index)
        if 0 <= message.sibling_index + step < message.sibling_count:
            self.version_step_requested.emit(message.id, step)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._flush()

    # Layout

    def current_row(self) -> int | None:
        return self.keyboard.current

    def _on_settled(self) -> None:
        self._pace.settled()
        super()._on_settled()
        shown = self.rows.bodies(self.scroll_top, self.scroll_top + self.viewport().height())
        self._coloring.look_at(shown)
        self._reading.look_at(shown)

    # Growing

    def _later(self) -> None:
        if not self._timer.isActive():
            self._timer.start(self._pace.due_in_ms)

    def _flush(self) -> None:
        """Read what arrived and show it."""
        started = time.thread_time()  # what others take from the machine is no cost of ours
        found = [self.rows.index_of(message_id) for message_id in self._grown]
        grown = [index for index in found if index is not None]
        before = self.rows.total
        for index in grown:
            self.rows.item(index).read()
            self.rows.measure(index)
            self.finder.change(index)
        if self._grown and not self._sticks:
            self._show_news(True)
        self._grown.clear()
        if self.rows.total != before or not self._are_whole_tokens(grown):
            self._settle()
        else:
            self._pace.settled()
        if self.isVisible():
            self.viewport().repaint(self._pace.changed(grown))
        self._pace.painted((time.thread_time() - started) * 1000)

    def _are_whole_tokens(self, grown: Sequence[int]) -> bool:
        """Whether what grew is shown as tokens and laid out already, so that nothing has moved
        where the heights are as they were."""
        shown = [self.rows.item(index).tokens for index in grown]
        return bool(shown) and all(body is not None and body.is_laid_out for body in shown)

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        self.repaints += 1
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), QColor(self._styles.colors.chat))
        top, height = event.rect().top(), event.rect().bottom() + 1
        index = self.rows.at(self.scroll_top + max(0, top - GAP_BELOW))
        while index < len(self.rows) and self.item_origin(index).y() < height:
            self._paint_row(painter, index, event)
            index += 1

    def _paint_row(self, painter: QPainter, index: int, event: QPaintEvent) -> None:
        origin = self.item_origin(index)
        painter.save()
        painter.translate(origin)
        clip = QRectF(event.rect()).translated(-origin)
        item = self.rows.item(index)
        item.paint(painter, clip, self._look(index))
        self.finder.paint(painter, index, item, clip)
        self.words.paint(painter, item, clip)
        painter.restore()

    def _look(self, index: int) -> ItemLook:
        hovered = self.pointer.hovered
        has_keyboard = self.keyboard.is_shown and self.keyboard.current == index
        is_current = has_keyboard or self.rows.message(index).id == self._marked_id
        is_last = index == len(self.rows) - 1
        return ItemLook(
            is_lit=is_last or is_current or self.pointer.index == index,
            is_current=is_current,
            hovered=hovered if self.pointer.index == index else None,
            focused=self.keyboard.action() if has_keyboard else None,
            done=self._done[1] if self._done and self._done[0] == index else None,
            selection=self.selection.part_of(index) if self.selection else None,
        )

    # Small things

    def _single_shot(self, act: object) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.timeout.connect(act)
        return timer

    def _show_done(self, index: int, action: Pressable) -> None:
        self._done = (index, action)
        self._done_timer.start(DONE_MS)

    def _on_done_over(self) -> None:
        self._done = None
        self.viewport().update()

    # Events

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            words = self.pointer.words_at(QPointF(event.pos()))
            show_tip(event.globalPos(), words, self.viewport())
            return True
        if event.type() == QEvent.Type.Leave:
            self.pointer.leave()
        return super().viewportEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._marked_id = ""
        self.viewport().update()
        self.pointer.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.pointer.move(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.pointer.release(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.pointer.double_click(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if not self.sliding.wheel(event):
            super().wheelEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.pointer.show_menu(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not (self.tokens.press(event) or self.keyboard.press(event)):
            super().keyPressEvent(event)

    def focusNextPrevChild(self, is_next: bool) -> bool:
        is_inside = self.tokens.enter_card(is_next) or self.keyboard.step_action(is_next)
        return is_inside or super().focusNextPrevChild(is_next)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.keyboard.enter(event.reason())

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.keyboard.leave()
