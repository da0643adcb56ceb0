"""The transcript by mouse: hovering, pressing what a message offers, selecting, the menu."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QPoint, QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QApplication, QMenu

from app.markdown.blocks import plain_text
from ui.markdown.layouts import Pressable
from ui.shell.actions import native
from ui.transcript.area import RowsArea
from ui.transcript.offers import LINE, ActsOnMessages, Offer
from ui.transcript.selection import MIXED, RAW, SHOWN, RowSpot, Selection
from ui.transcript.sliding import Sliding
from ui.transcript.tokens.mode import TokenMode
from ui.transcript.word_choice import WordChoice, word_around

SCROLL_MS = 30
KEYBOARD_ONLY = frozenset({"open_link", "scroll_sideways"})
"""Places that only Tab stops at; the mouse has its own way to them."""


class Pointer(QObject):
    """Where the pointer is and what it drags."""

    link_clicked = Signal(str)

    def __init__(
        self,
        view: RowsArea,
        sliding: Sliding,
        tokens: TokenMode,
        words: WordChoice,
        acts: ActsOnMessages,
    ) -> None:
        super().__init__(view)
        self._view = view
        self._sliding = sliding
        self._tokens = tokens
        self._words = words
        self._acts = acts
        self.index: int | None = None
        self.hovered: Pressable | None = None
        self._pressed: tuple[int, Pressable] | None = None
        self._pressed_link = ""
        self._pressed_at = QPointF()
        self._last = QPointF()
        self._is_selecting = self._had_selection = False
        self._scroll = QTimer(self)
        self._scroll.setInterval(SCROLL_MS)
        self._scroll.timeout.connect(self._on_scroll_due)

    def reset(self) -> None:
        """The rows changed under the pointer."""
        self.index = self.hovered = self._pressed = None
        self._pressed_link = ""
        self._is_selecting = False
        self._scroll.stop()

    def move_by(self, count: int) -> None:
        """So many messages came before all others; what is under the pointer stays there."""
        if self.index is not None:
            self.index += count
        if self._pressed is not None:
            self._pressed = (self._pressed[0] + count, self._pressed[1])

    def leave(self) -> None:
        self._tokens.leave()
        if self.index is not None:
            self.index = self.hovered = None
            self._view.viewport().update()

    # Mouse

    def press(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        point = event.position()
        self._hover(point)
        self._pressed_at = self._last = point
        if self._sliding.press(point):
            return
        if self.index is not None and self.hovered is not None:
            self._pressed = (self.index, self.hovered)
            return
        self._pressed_link = self.link_at(point)
        former = self._view.selection
        self._had_selection = former is not None and not former.is_empty
        place = self.place_at(point)
        if place is None:
            return
        is_triple = self._is_near_double(event)
        if is_triple:
            self._select_block(place)
            return
        extends = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        anchor = self._view.selection.anchor if extends and self._view.selection else place
        self._view.selection = Selection(anchor, place)
        self._is_selecting = True
        self._view.viewport().update()

    def move(self, event: QMouseEvent) -> None:
        point = event.position()
        self._last = point
        if self._sliding.move(point):
            return
        if not self._is_selecting:
            self._hover(point)
            return
        self._extend(point)
        outside = not 0 <= point.y() < self._view.viewport().height()
        if outside and not self._scroll.isActive():
            self._scroll.start()
        elif not outside:
            self._scroll.stop()

    def release(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._is_selecting = False
        self._scroll.stop()
        point = event.position()
        if self._sliding.release():
            return
        if self._pressed is not None:
            pressed, self._pressed = self._pressed, None
            self._hover(point)
            if (self.index, self.hovered) == pressed:
                self._acts.trigger(*pressed)
            return
        selection = self._view.selection
        if selection is not None and selection.is_empty:
            self._view.selection = None
        if self._pressed_link and self._is_click(point) and self._view.selection is None:
            self.link_clicked.emit(self._pressed_link)
        elif self._is_click(point) and self._view.selection is None:
            self._choose_at(point)
        self._pressed_link = ""

    def _choose_at(self, point: QPointF) -> None:
        """A token, or a word; a click that lets go of a selection chooses no word."""
        if self._tokens.is_on:
            self._tokens.click(point)
        elif not self._had_selection:
            self._words.click(point)

    def double_click(self, event: QMouseEvent) -> None:
        """Select a word."""
        self._hover(event.position())
        if event.button() != Qt.MouseButton.LeftButton or self.hovered is not None:
            self.press(event)
            return
        place = self.place_at(event.position())
        if place is None:
            return
        self._double_at = event.position()
        self._double_time = event.timestamp()
        text = self._block_text(place)
        start, end = word_around(text, place[4])
        self._view.selection = Selection((*place[:4], start), (*place[:4], end))
        self._view.viewport().update()

    def show_menu(self, event: QContextMenuEvent) -> None:
        """Where the pointer is, or for the message that the keyboard is on (the menu key)."""
        point = QPointF(event.pos())
        current = self._view.current_row()
        if event.reason() is QContextMenuEvent.Reason.Keyboard and current is not None:
            corner = self._view.item_origin(current).toPoint()
            self.open_menu(current, self._view.viewport().mapToGlobal(corner))
        else:
            self.open_menu(self._index_at(point), event.globalPos(), self.link_at(point))

    def open_menu(self, index: int | None, place: QPoint, link: str = "") -> QMenu:
        """Everything that a message offers, with its keys."""
        view = self._view
        menu = QMenu(view)
        menu.setObjectName("message_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for label, form in (
            ("Copy selected text\tCtrl+C", MIXED),
            ("Copy as Markdown\tCtrl+Shift+C", RAW),
            ("Copy as shown", SHOWN),
        ):
            entry = menu.addAction(label)
            entry.setObjectName(f"copy_{form}")
            entry.triggered.connect(lambda _=False, form=form: self._acts.copy(form))
            entry.setEnabled(bool(view.selection))
        if link:
            menu.addAction("Copy link address", lambda: self._acts.copy_text(link))
        if index is not None:
            self._add_offers(menu, index)
        menu.addSeparator()
        menu.addAction("Select all", view.select_all)
        menu.popup(place)
        return menu

    def _add_offers(self, menu: QMenu, index: int) -> None:
        for offer in self._acts.offers_of(index):
            if offer is LINE:
                menu.addSeparator()
                continue
            keys = f"\t{native(offer.key)}" if offer.key else ""
            entry = menu.addAction(f"{offer.label}{keys}")
            entry.setObjectName(offer.name)
            entry.triggered.connect(partial(self._choose, index, offer))

    def _choose(self, index: int, offer: Offer, _is_checked: bool = False) -> None:
        if index < len(self._view.rows):
            self._acts.ask_for(index, offer)

    # Where things are

    def words_at(self, point: QPointF) -> str:
        """The tooltip: a link's target or what a button does."""
        if link := self.link_at(point):
            return link
        if (hit := self._action_at(point)) is not None:
            return hit[1].label
        index = self._index_at(point)
        if index is None:
            return ""
        return self._view.rows.item(index).words_at(point - self._view.item_origin(index))

    def link_at(self, point: QPointF) -> str:
        index = self._index_at(point)
        if index is None:
            return ""
        return self._view.rows.item(index).link_at(point - self._view.item_origin(index))

    def place_at(self, point: QPointF) -> RowSpot | None:
        """The nearest place in the conversation's text."""
        index = self._view.index_at(point.y())
        if index is None:
            return None
        spot = self._view.rows.item(index).spot_at(point - self._view.item_origin(index))
        return (index, *spot)

    def _index_at(self, point: QPointF) -> int | None:
        index = self._view.index_at(point.y())
        if index is None:
            return None
        inside = point.y() - self._view.item_origin(index).y()
        return index if 0 <= inside < self._view.rows.height(index) else None

    def _action_at(self, point: QPointF) -> tuple[int, Pressable] | None:
        index = self._index_at(point)
        if index is None:
            return None
        inside = point - self._view.item_origin(index)
        for action in self._view.rows.item(index).actions(inside.y(), inside.y()):
            if action.name not in KEYBOARD_ONLY and action.rect.contains(inside):
                return index, action
        return None

    def _hover(self, point: QPointF) -> None:
        self._tokens.hover(point)
        index, hit = self._index_at(point), self._action_at(point)
        hovered = hit[1] if hit is not None else None
        shape = Qt.CursorShape.ArrowCursor
        if hovered is not None or self.link_at(point):
            shape = Qt.CursorShape.PointingHandCursor
        elif self._sliding.is_over_bar(point):
            shape = Qt.CursorShape.ArrowCursor
        elif index is not None and self._is_on_text(index, point):
            shape = Qt.CursorShape.IBeamCursor
        self._view.viewport().setCursor(shape)
        if (index, hovered) != (self.index, self.hovered):
            self.index, self.hovered = index, hovered
            self._view.viewport().update()

    def _is_on_text(self, index: int, point: QPointF) -> bool:
        return self._view.rows.item(index).text_at(point - self._view.item_origin(index))

    # Selecting

    _double_at = QPointF(-100, -100)
    _double_time = 0

    def _is_near_double(self, event: QMouseEvent) -> bool:
        """Whether this press is the third of three quick ones at one place."""
        quick = event.timestamp() - self._double_time < QApplication.doubleClickInterval()
        return quick and _is_near(event.position(), self._double_at)

    def _is_click(self, point: QPointF) -> bool:
        return _is_near(point, self._pressed_at)

    def _extend(self, point: QPointF) -> None:
        place = self.place_at(point)
        selection = self._view.selection
        if place is not None and selection is not None:
            selection.focus = place
            self._view.viewport().update()

    def _on_scroll_due(self) -> None:
        """Scroll while something is dragged beyond an edge, faster further out."""
        bar = self._view.verticalScrollBar()
        height = self._view.viewport().height()
        beyond = self._last.y() if self._last.y() < 0 else self._last.y() - height
        bar.setValue(bar.value() + round(beyond / 2))
        edge = min(max(0.0, self._last.y()), height - 1.0)
        self._extend(QPointF(self._last.x(), edge))
        if QGuiApplication.mouseButtons() == Qt.MouseButton.NoButton:
            self._scroll.stop()

    def _select_block(self, place: RowSpot) -> None:
        end = len(self._block_text(place).encode("utf-16-le")) // 2
        self._view.selection = Selection((*place[:4], 0), (*place[:4], end))
        self._view.viewport().update()

    def _block_text(self, place: RowSpot) -> str:
        index, section, segment, block, _position = place
        document = self._view.rows.item(index).body(section).document
        segments = document.known_segments
        if segment >= len(segments):
            return ""
        blocks = document.blocks(segments[segment])
        return plain_text(blocks[block]) if block < len(blocks) else ""


def _is_near(first: QPointF, second: QPointF) -> bool:
    distance = (first - second).manhattanLength()
    return distance < QApplication.startDragDistance()
