"""The transcript by keyboard: arrows between messages, Tab between what a message offers.

Only the message that the keyboard is on has Tab stops, so that Tab leads out again after a
few presses, however long the conversation is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QKeyCombination, QObject, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QAccessibleEvent,
    QKeyEvent,
    QKeySequence,
)

from ui.markdown.layouts import Pressable
from ui.shell.keys import is_written
from ui.transcript.area import RowsArea
from ui.transcript.offers import ActsOnMessages, offer_for_key
from ui.transcript.selection import RAW
from ui.transcript.sliding import Sliding
from ui.transcript.summary import spoken_text

if TYPE_CHECKING:
    from models.records import Message

_BY_KEYBOARD = (
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
)
_ENTERS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
_SIDEWAYS: dict[int, int] = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
COPY_RAW = QKeyCombination(
    Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier, Qt.Key.Key_C
)
SPOKEN_CHARS = 4000
ANNOUNCE_MS = 1500
"""What comes by itself is said at most so often: the last of it."""


class Keyboard(QObject):
    """Which message and which action the keyboard is on. `moved`: to the message with this id.
    `typed`: what is written while it is on none."""

    moved = Signal(str)
    typed = Signal(str)

    def __init__(self, view: RowsArea, sliding: Sliding, acts: ActsOnMessages) -> None:
        super().__init__(view)
        self._view = view
        self._sliding = sliding
        self._acts = acts
        self.current: int | None = None
        self.is_shown = False
        self._action: int | None = None
        self._unsaid = ""
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(ANNOUNCE_MS)
        self._rest.timeout.connect(self._say_unsaid)

    def reset(self) -> None:
        self.current = self._action = None

    def message(self) -> Message | None:
        """The message that the keyboard is on and that shows it."""
        index, rows = self.current, self._view.rows
        is_on_one = self.is_shown and index is not None and index < len(rows)
        return rows.message(index) if is_on_one and index is not None else None

    def stay_on(self, former: Message | None) -> None:
        """Another path is shown: stay on the message, or on what its chat now has in its place."""
        place, rows = self.current, self._view.rows
        self.reset()
        if former is None or place is None or not len(rows):
            return
        self.current = rows.index_of(former.id)
        if self.current is None and rows.message(0).conversation_id == former.conversation_id:
            self.current = min(place, len(rows) - 1)

    def move_by(self, count: int) -> None:
        """So many messages came before all others."""
        if self.current is not None:
            self.current += count

    def enter(self, reason: Qt.FocusReason) -> None:
        """The transcript got the focus."""
        self.is_shown = reason in _BY_KEYBOARD
        rows = self._view.rows
        if self.is_shown and len(rows) and self.current is None:
            bottom = self._view.viewport().height() - self._view.styles.px(40)
            self._go(self._view.index_at(bottom))
        self._view.viewport().update()

    def leave(self) -> None:
        self.is_shown = False
        self._action = None
        self._view.viewport().update()

    def actions(self) -> list[Pressable]:
        """What the current message offers."""
        if self.current is None or self.current >= len(self._view.rows):
            return []
        view, index = self._view, self.current
        top = view.scroll_top - view.rows.top(index)
        return view.rows.item(index).actions(top, top + view.viewport().height())

    def action(self) -> Pressable | None:
        """The action that the keyboard is on."""
        actions = self.actions()
        if self._action is None or self._action >= len(actions):
            return None
        return actions[self._action]

    def step_action(self, is_next: bool) -> bool:
        """Tab and Shift+Tab inside the current message; False where they lead out."""
        count = len(self.actions())
        if not self.is_shown or not count:
            return False
        if self._action is None:
            self._action = 0 if is_next else None
        else:
            self._action += 1 if is_next else -1
        if self._action is None or not 0 <= self._action < count:
            self._action = None
            return False
        self._say_action()
        self._view.viewport().update()
        return True

    def press(self, event: QKeyEvent) -> bool:
        """Whether the key was one of ours."""
        view = self._view
        if event.matches(QKeySequence.StandardKey.Copy):
            self._acts.copy()
        elif event.keyCombination() == COPY_RAW:
            self._acts.copy(RAW)
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            view.select_all()
        elif event.key() in _ENTERS and (action := self.action()) and self.current is not None:
            self._acts.trigger(self.current, action)
        elif self._ask_by_key(event):
            return True
        elif event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            return self._pass_on(event)
        else:
            return self._press_plain(event.key()) or self._pass_on(event)
        return True

    def _pass_on(self, event: QKeyEvent) -> bool:
        """What is written while the keyboard is on no message is meant for the composer."""
        if self.is_shown or not is_written(event):
            return False
        self.typed.emit(event.text())
        return True

    def _ask_by_key(self, event: QKeyEvent) -> bool:
        """Whether the key is one of those that act on the current message."""
        view, index = self._view, self.current
        shift = Qt.KeyboardModifier.ShiftModifier
        other = event.modifiers() & ~(shift | Qt.KeyboardModifier.KeypadModifier)
        if index is None or not self.is_shown or index >= len(view.rows) or other:
            return False
        is_last = index == len(view.rows) - 1
        is_shifted = bool(event.modifiers() & shift)
        offer = offer_for_key(
            view.rows.message(index), event.key(), is_shifted=is_shifted, is_last=is_last
        )
        if offer is None or offer.name not in {each.name for each in self._acts.offers_of(index)}:
            return False
        self._acts.ask_for(index, offer)
        return True

    def _press_plain(self, key: int) -> bool:
        view, bar = self._view, self._view.verticalScrollBar()
        if key in _SIDEWAYS and self._slide(_SIDEWAYS[key]):
            return True
        match key:
            case Qt.Key.Key_Up | Qt.Key.Key_Down:
                self._step_message(1 if key == Qt.Key.Key_Down else -1)
            case Qt.Key.Key_Left | Qt.Key.Key_Right if self.current is not None:
                self.step_version(1 if key == Qt.Key.Key_Right else -1)
            case Qt.Key.Key_Home:
                bar.setValue(0)
                self._go(0)
            case Qt.Key.Key_End:
                view.scroll_to_end()
                self._go(len(view.rows) - 1)
            case Qt.Key.Key_Space:
                bar.setValue(bar.value() + bar.pageStep())
            case Qt.Key.Key_Escape if view.selection is not None:
                view.clear_selection()
            case _:
                return False
        return True

    def step_version(self, step: int) -> None:
        """The version of the message before (-1) or after (+1), where there is one."""
        if self.current is not None:
            self._acts.step_version(self.current, step)

    def _slide(self, direction: int) -> bool:
        """Whether the keyboard is on code or a table that the arrow keys move sideways."""
        action = self.action()
        if action is None or action.name != "scroll_sideways" or self.current is None:
            return False
        self._sliding.step(self.current, action, direction)
        return True

    def _step_message(self, step: int) -> None:
        """To the next message; inside one that is taller than the view, scroll first."""
        view, rows = self._view, self._view.rows
        if not len(rows):
            return
        self.is_shown = True
        if self.current is None:
            self._go(view.index_at(view.viewport().height() / 2))
            return
        height = view.viewport().height()
        top = view.item_origin(self.current).y()
        bottom = top + rows.height(self.current)
        bar = view.verticalScrollBar()
        jump = round(height * 0.8)
        if step > 0 and bottom > height + 1 and top < height:
            bar.setValue(bar.value() + min(jump, round(bottom - height)))
        elif step < 0 and top < -1 and bottom > 0:
            bar.setValue(bar.value() - min(jump, round(-top)))
        elif 0 <= self.current + step < len(rows):
            self._go(self.current + step)

    def _go(self, index: int | None) -> None:
        """Put the keyboard on a message and bring it into view."""
        view = self._view
        if index is None or not 0 <= index < len(view.rows):
            return
        self.current = index
        self._action = None
        self.is_shown = view.hasFocus()
        top = view.item_origin(index).y()
        bottom = top + view.rows.height(index)
        height = view.viewport().height()
        if top < 0 or (bottom > height and bottom - top > height):
            view.scroll_to(view.rows.top(index) - view.top_space)
        elif bottom > height:
            bar = view.verticalScrollBar()
            bar.setValue(bar.value() + round(bottom - height))
        self._say_message(index)
        view.viewport().update()

    def put_on(self, index: int) -> None:
        """The keyboard is on a message, without its being brought into view."""
        if index != self.current:
            self._action = None
        self.current, self.is_shown = index, True

    # Screen readers

    def announce(self, index: int) -> None:
        """Say a reply once it is whole. While it grows nothing is said."""
        if QAccessible.isActive() and index == len(self._view.rows) - 1:
            self._unsaid = spoken_text(self._view.rows.message(index))[:SPOKEN_CHARS]
            if not self._rest.isActive():
                self._say_unsaid()

    def _say_unsaid(self) -> None:
        words, self._unsaid = self._unsaid, ""
        if words:
            self._rest.start()
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._view, words))

    def _say_message(self, index: int) -> None:
        message = self._view.rows.message(index)
        words = spoken_text(message)[:SPOKEN_CHARS]
        self.describe(f"Message {index + 1} of {len(self._view.rows)}. {words}")
        self.moved.emit(message.id)

    def _say_action(self) -> None:
        if (action := self.action()) is not None:
            self.describe(action.label)

    def describe(self, words: str) -> None:
        """Say what the keyboard is on."""
        self._view.setAccessibleDescription(words)
        if QAccessible.isActive():
            event = QAccessibleEvent(self._view, QAccessible.Event.DescriptionChanged)
            QAccessible.updateAccessibility(event)
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._view, words))
