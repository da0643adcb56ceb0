"""The token view of a transcript: every message as its tokens, instead of Markdown.

It holds which tokens are known of the messages that were in view lately, asks for those that are
not (`wanted`), and knows which token is chosen, under the keyboard and under the pointer. What must
hold: switched off it costs nothing; switching keeps what is read in its place; what is imported for
it is imported when it is first switched on.

With the mouse whole tokens are selected. ‹ › are reached by Tab or Ctrl and the arrow keys, since
arrows alone go from token to token. With 32,000 tokens in view and one more every 5 ms the loop
stops for 10 ms of processor time at most, an eighth of a core in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QPoint, QPointF, QRectF, Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QKeyEvent

from app import cores
from models.records import Message, MessageState
from ui.transcript.area import RowsArea
from ui.transcript.item import CONTENT
from ui.transcript.keyboard import Keyboard

if TYPE_CHECKING:
    from app.engine.protocol.pieces import Pieces
    from app.insight.trace.message_tokens import MessageTokens
    from app.insight.trace.tokens_shown import Tint
    from ui.transcript.tokens.body import TokenBody
    from ui.transcript.tokens.document import TokenDocument
    from ui.transcript.tokens.hover import TokenCard, TokenSpot

FRAME_MS: Final = 85 if cores.HAS_FEW else 75
"""The pause after each layout of a growing reply: with what it takes, at least ten a second."""
HOVER_MS: Final = 220
LEAVE_MS: Final = 260
KEPT_TOKENS: Final = 40_000
"""Beyond so many, what is known of messages that are not in view is let go of."""

PaintOf = Callable[[str, "MessageTokens"], Sequence[float]]
"""How strongly each token of a message is tinted, by its number, from 0 to 1."""

_STEPS: Final = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}
_ENTERS: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_MOST_EMPTY: Final = 1_000
MOST_LOOKS: Final = 20


class TokenMode(QObject):
    """`wanted`: messages in view of which no tokens are known. `chosen`: a token was clicked, by
    its place in the reply's trace. `branch_requested`: another token shall stand there;
    `piece_requested`: one that is known by its bytes alone.
    `moved`: other messages are in view, or more is known of them. `replaced`: other tokens of
    the message with this index are shown."""

    toggled = Signal(bool)
    wanted = Signal(list)
    chosen = Signal(str, int)
    branch_requested = Signal(str, int, int)
    piece_requested = Signal(str, int, bytes)
    moved = Signal()
    replaced = Signal(int)

    def __init__(self, view: RowsArea, keyboard: Keyboard) -> None:
        super().__init__(view)
        self._view = view
        self._keyboard = keyboard
        self.is_on = False
        self.tint: Tint = "probability"
        self._paint: PaintOf | None = None
        self.words_of: Callable[[Message], Pieces | None] = lambda _message: None
        self.may_branch: Callable[[Message], bool] = lambda _message: False
        self._documents: dict[str, TokenDocument] = {}
        self._known: dict[str, tuple[object, ...]] = {}
        self._chosen: TokenSpot | None = None
        self._cursor: TokenSpot | None = None
        self._hovered: TokenSpot | None = None
        self._card: TokenCard | None = None
        self._is_looking = self._looks_again = self._has_news = False
        self._hover_timer = self._single_shot(HOVER_MS, self._on_hovered)
        self._leave_timer = self._single_shot(LEAVE_MS, self._on_left)
        view.settled.connect(self.look_around)

    # --- on and off -----------------------------------------------------------------------------

    def set_on(self, is_on: bool) -> None:
        if is_on == self.is_on:
            return
        from ui.transcript.tokens.place import ReadingPlace

        place = ReadingPlace.of(self._view)
        self.is_on = is_on
        self._cursor = self._hovered = None
        self.hide_card()
        self._view.clear_selection()
        self._view.rows.set_tokens(self.document_of if is_on else None)
        if not is_on:
            self._documents.clear()
            self._known.clear()
        place.restore(self._view)
        self.toggled.emit(is_on)

    def set_tint(self, tint: Tint) -> None:
        self.tint = tint
        for document in self._documents.values():
            document.set_tint(tint)
        self._view.viewport().update()

    def set_paint(self, paint: PaintOf | None) -> None:
        """Tints from elsewhere, of all messages; None: those of the traces again."""
        self._paint = paint
        for message_id, document in self._documents.items():
            document.set_paint(None if paint is None else paint(message_id, document.tokens))
        self._view.viewport().update()

    # --- what is known --------------------------------------------------------------------------

    def document_of(self, message: Message) -> TokenDocument:
        """The tokens of a message; until they are known, the words of its text."""
        document = self._documents.get(message.id)
        if document is None:
            from app.insight.trace.message_tokens import plain

            document = self._put(message.id, plain(text_of(message)))
        return document

    def copy_of(self, message: Message, may_hold: Callable[[str], bool]) -> TokenDocument | None:
        """The same, for whoever looks through it: what the view has not read is not read behind
        its back. None for words that cannot hold what is looked for."""
        from app.insight.trace.message_tokens import plain
        from ui.transcript.tokens.document import TokenDocument

        document = self._documents.get(message.id)
        if document is not None:
            return document.copy()
        text = text_of(message)
        return TokenDocument(plain(text), self.tint) if may_hold(text) else None

    def tokens_of(self, message_id: str) -> MessageTokens | None:
        document = self._documents.get(message_id)
        return None if document is None else document.tokens

    def show(self, message: Message, tokens: MessageTokens) -> None:
        """These are the message's tokens, as it is now."""
        if not self.is_on:
            return
        self._known[message.id] = _state_of(message)
        document = self._put(message.id, tokens)
        index = self._view.rows.index_of(message.id)
        if index is None:
            return
        self._replace(index, document)
        self.replaced.emit(index)

    def _replace(self, index: int, document: TokenDocument) -> None:
        """Other tokens of a message; what is read of it stays in view."""
        from ui.transcript.tokens.place import ReadingPlace

        rows = self._view.rows
        is_first = index == self._view.index_at(0)
        place = ReadingPlace.of(self._view) if is_first and not self._is_looking else None
        if rows.has_item(index):
            rows.item(index).show_tokens(document)
        if self._is_looking:
            self._has_news = True
            rows.measure(index)
        elif place is None:
            self._view.remeasure(index)
        else:
            place.restore(self._view)

    def usual_ms(self, message_id: str) -> float:
        """What the time of a reply's tokens is compared with; 0 where time is not tinted."""
        document = self._documents.get(message_id)
        return 0.0 if document is None else document.usual_ms

    def ask_again(self, message_id: str | None = None) -> None:
        """What is known may be more now; of one message, or of those of which nothing is."""
        for each, document in self._documents.items():
            is_poor = not document.tokens.are_tokens or bool(document.tokens.note)
            if each == message_id or (message_id is None and is_poor):
                self._known.pop(each, None)
        self.look_around()

    def change(self, message: Message) -> None:
        """Another state of a message: it may have other tokens."""
        if self.is_on and self._known.get(message.id) not in (None, _state_of(message)):
            del self._known[message.id]

    def lacking(self, message_id: str) -> Message | None:
        """A message of the path whose tokens are not known as it is now."""
        index = self._view.rows.index_of(message_id) if self.is_on else None
        if index is None:
            return None
        message = self._view.rows.message(index)
        return None if self._known.get(message_id) == _state_of(message) else message

    def messages_in_view(self) -> list[Message]:
        view = self._view
        if not len(view.rows):
            return []
        last = view.index_at(view.viewport().height()) or 0
        return [view.rows.message(i) for i in range(view.index_at(0) or 0, last + 1)]

    def _put(self, message_id: str, tokens: MessageTokens) -> TokenDocument:
        from ui.transcript.tokens.document import TokenDocument

        document = TokenDocument(tokens, self.tint)
        if self._paint is not None:
            document.set_paint(self._paint(message_id, tokens))
        self._documents.pop(message_id, None)
        self._documents[message_id] = document
        n_before = len(tokens.before)
        if self._chosen is not None and self._chosen[0] == message_id:
            document.chosen = self._chosen[1] + n_before
        if self._cursor is not None and self._cursor[0] == message_id:
            document.cursor = self._cursor[1]
        return document

    def look_around(self) -> None:
        """Ask for what is in view, let go of what was. What is known at once may bring more into
        view, which is looked at in the same way, one after the other."""
        if not self.is_on or self._is_looking:
            self._looks_again = True
            return
        self._is_looking = True
        try:
            for _ in range(MOST_LOOKS):
                self._looks_again = False
                self._look_once()
                if not self._looks_again:
                    break
        finally:
            self._is_looking = False

    def _look_once(self) -> None:
        from ui.transcript.tokens.place import ReadingPlace

        shown = self.messages_in_view()
        lacking = [m for m in shown if self._known.get(m.id) != _state_of(m)]
        self._forget({m.id for m in shown})
        self._follow_card()
        self.moved.emit()
        if not lacking:
            return
        place, self._has_news = ReadingPlace.of(self._view), False
        self.wanted.emit(lacking)
        if self._has_news:
            place.restore(self._view)

    def _forget(self, kept: set[str]) -> None:
        total = sum(len(d.tokens) for d in self._documents.values())
        for message_id in list(self._documents):
            if total <= KEPT_TOKENS:
                return
            index = self._view.rows.index_of(message_id)
            if message_id not in kept:
                total -= len(self._documents.pop(message_id).tokens)
                self._known.pop(message_id, None)
                if index is not None:
                    self._view.rows.forget(index)

    # --- the chosen token -----------------------------------------------------------------------

    def select(self, message_id: str, place: int | None) -> None:
        """The token that all panels look at, by its place in the trace."""
        if self._chosen is not None and self._chosen[0] in self._documents:
            self._documents[self._chosen[0]].chosen = None
        self._chosen = None if place is None else (message_id, place)
        document = self._documents.get(message_id)
        if document is not None and place is not None:
            document.chosen = len(document.tokens.before) + place
        self._view.viewport().update()

    def show_place(self, message_id: str, place: int) -> None:
        """Bring a token of a reply into view, with the keyboard on it."""
        document = self._documents.get(message_id)
        if document is not None:
            self._go((message_id, len(document.tokens.before) + place), shows_card=False)

    def _choose(self, spot: TokenSpot) -> None:
        document = self._documents.get(spot[0])
        place = document.tokens.place_of(spot[1]) if document is not None else None
        if place is not None:
            self.chosen.emit(spot[0], place)

    # --- mouse ----------------------------------------------------------------------------------

    def click(self, point: QPointF) -> None:
        spot = self._spot_at(point) if self.is_on else None
        if spot is not None:
            self._set_cursor(None)
            self._choose(spot)

    def hover(self, point: QPointF) -> None:
        """The pointer is there."""
        if not self.is_on:
            return
        spot = self._spot_at(point)
        if spot is None:
            self.leave()
        elif spot != self._hovered:
            self._hovered = spot
            self._leave_timer.stop()
            self._hover_timer.start()
        elif self._card is not None and self._card.isVisible():
            self._leave_timer.stop()

    def leave(self) -> None:
        """The pointer is on no token: perhaps on its way to the card."""
        self._hovered = None
        self._hover_timer.stop()
        if self._card is not None and self._card.isVisible() and self._cursor is None:
            self._leave_timer.start()

    def _on_hovered(self) -> None:
        if self._hovered is not None:
            self._set_cursor(None)
            self._show_card(self._hovered)

    def _on_left(self) -> None:
        if self._card is not None and not self._card.is_pointed_at():
            self.hide_card()
        elif self._card is not None and self._card.isVisible():
            self._leave_timer.start()

    def _spot_at(self, point: QPointF) -> TokenSpot | None:
        index = self._view.index_at(point.y())
        body = None if index is None else self._body(index)
        if index is None or body is None:
            return None
        rect = self._view.rows.item(index).section_rect(CONTENT)
        number = body.token_at(point - self._view.item_origin(index) - rect.topLeft())
        return None if number is None else (self._view.rows.message(index).id, number)

    # --- keyboard -------------------------------------------------------------------------------

    def press(self, event: QKeyEvent) -> bool:
        """Whether a key was one of ours."""
        if not self.is_on or self._keyboard.action() is not None:
            return False
        held = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        key = Qt.Key(event.key())
        if held == Qt.KeyboardModifier.ControlModifier:
            return self._press_with_control(key)
        if held:
            return False
        if key == Qt.Key.Key_Escape and self._is_card_open():
            self.hide_card()
            return True
        if key in _ENTERS and self._cursor is not None:
            self.choose()
            return True
        if key in _STEPS:
            return self.step(*_STEPS[key])
        if key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            return self._to_end_of_message(is_last=key == Qt.Key.Key_End)
        return False

    def enter_card(self, is_next: bool) -> bool:
        """Tab leads from the token into its card."""
        is_there = self.is_on and self._cursor is not None and self._is_card_open()
        return is_next and is_there and self._card is not None and self._card.take_focus()

    def _press_with_control(self, key: Qt.Key) -> bool:
        rows, keyboard = self._view.rows, self._keyboard
        if key in (Qt.Key.Key_Home, Qt.Key.Key_End) and len(rows):
            is_last = key == Qt.Key.Key_End
            index = len(rows) - 1 if is_last else 0
            return self._go_into(index, is_last=is_last)
        may_step = keyboard.current is not None and not rows.is_bare
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and may_step:
            keyboard.step_version(1 if key == Qt.Key.Key_Right else -1)
            return True
        return False

    def _here(self) -> TokenSpot | None:
        """Where the keyboard is, else the chosen token."""
        if self._cursor is not None and self._is_there(self._cursor):
            return self._cursor
        if self._chosen is None or self._chosen[0] not in self._documents:
            return None
        document = self._documents[self._chosen[0]]
        spot = (self._chosen[0], len(document.tokens.before) + self._chosen[1])
        return spot if self._is_there(spot) else None

    def _is_there(self, spot: TokenSpot) -> bool:
        """Whether there is such a token still: of a reply that grows the last ones may be taken
        back."""
        document = self._documents.get(spot[0])
        return document is not None and 0 <= spot[1] < len(document.tokens)

    def choose(self) -> None:
        """The token that the keyboard is on is the one that all panels look at."""
        if self._cursor is not None:
            self._choose(self._cursor)

    def step(self, by: int, lines: int = 0) -> bool:
        """So many tokens on, or lines; from the first one in view where there is none yet."""
        here = self._here()
        index = self._view.rows.index_of(here[0]) if here is not None else None
        if here is None or index is None:
            return self._begin()
        body = self._body(index)
        if body is None:
            return False
        number: int | None = here[1] + by
        if lines:
            number = body.token_beside(here[1], lines)
        if number is not None and 0 <= number < len(body.tokens.tokens):
            return self._go((here[0], number))
        x = body.token_rect(here[1]).center().x() if lines else None
        direction = by + lines
        return self._go_into(index + direction, is_last=direction < 0, x=x)

    def _begin(self) -> bool:
        """On the first token that is in view."""
        view = self._view
        index = self._keyboard.current
        if index is None:
            index = view.index_at(0)
        if index is None or index >= len(view.rows):
            return False
        body = self._body(index)
        if body is None:
            return False
        rect = view.rows.item(index).section_rect(CONTENT)
        top = -(view.item_origin(index).y() + rect.top())
        number = body.token_near(QPointF(0, max(top, 0.0) + 1))
        return number is not None and self._go((view.rows.message(index).id, number))

    def _go_into(self, index: int, *, is_last: bool, x: float | None = None) -> bool:
        """Into a message, from below or from above; past those without tokens."""
        step = -1 if is_last else 1
        for at in range(index, index + step * _MOST_EMPTY, step):
            if not 0 <= at < len(self._view.rows):
                return True  # there is nothing further
            body = self._body(at)
            count = len(body.tokens.tokens) if body is not None else 0
            if body is None or not count:
                continue
            if not body.is_read:
                body.read()
            number = body.token_in_line(x, is_last=is_last) if x is not None else None
            if number is None:
                number = count - 1 if is_last else 0
            return self._go((self._view.rows.message(at).id, number))
        return True

    def _to_end_of_message(self, *, is_last: bool) -> bool:
        here = self._here()
        index = self._view.rows.index_of(here[0]) if here is not None else None
        body = self._body(index) if index is not None else None
        if here is None or body is None:
            return self._begin()
        return self._go((here[0], len(body.tokens.tokens) - 1 if is_last else 0))

    def _go(self, spot: TokenSpot, *, shows_card: bool = True) -> bool:
        """Put the keyboard on a token and bring it into view."""
        view = self._view
        index = view.rows.index_of(spot[0])
        body = self._body(index) if index is not None else None
        if index is None or body is None or not self._is_there(spot):
            return False
        self._set_cursor(spot)
        self._keyboard.put_on(index)
        height, margin = view.viewport().height(), view.styles.line_step
        view.leave_end()
        for _ in range(4):  # what is laid out on the way changes the heights
            rect = self._rect_of(index, body, spot[1])
            view.rows.measure(index)
            top = rect.top() - view.scroll_top
            if top >= 0 and top + rect.height() <= height:
                break
            below = rect.bottom() + margin - height
            view.scroll_to(rect.top() - margin if top < 0 else below)
        view.viewport().update()
        self._keyboard.describe(self._spoken(spot))
        if shows_card:
            self._show_card(spot)
        return True

    def _set_cursor(self, spot: TokenSpot | None) -> None:
        if self._cursor is not None and self._cursor[0] in self._documents:
            self._documents[self._cursor[0]].cursor = None
        self._cursor = spot
        if spot is not None and spot[0] in self._documents:
            self._documents[spot[0]].cursor = spot[1]

    def _rect_of(self, index: int, body: TokenBody, number: int) -> QRectF:
        """Where a token stands in the rows."""
        item = self._view.rows.item(index)
        corner = item.section_rect(CONTENT).topLeft()
        return body.token_rect(number).translated(corner).translated(0, self._view.rows.top(index))

    def _spoken(self, spot: TokenSpot) -> str:
        from ui.transcript.tokens.facts import spoken

        return spoken(self._documents[spot[0]].tokens, spot[1])

    # --- the card -------------------------------------------------------------------------------

    def hide_card(self) -> None:
        self._hovered = None
        self._hover_timer.stop()
        self._leave_timer.stop()
        if self._card is not None:
            self._card.hide()

    def card(self) -> TokenCard:
        if self._card is None:
            from ui.transcript.tokens.hover import TokenCard

            self._card = TokenCard(self._view.theme, self._view)
            self._card.branch_requested.connect(partial(self._on_branch, self.branch_requested))
            self._card.piece_requested.connect(partial(self._on_branch, self.piece_requested))
        return self._card

    def _is_card_open(self) -> bool:
        return self._card is not None and self._card.isVisible()

    def _show_card(self, spot: TokenSpot) -> None:
        from ui.transcript.tokens.facts import facts_of

        index = self._view.rows.index_of(spot[0])
        if index is None or not self._is_there(spot):
            return
        message = self._view.rows.message(index)
        tokens = self._documents[spot[0]].tokens
        words, may_branch = self.words_of(message), self.may_branch(message)
        facts = facts_of(tokens, spot[1], words, may_branch, message)
        self.card().show_facts(spot, facts)
        self._follow_card()

    def _follow_card(self) -> None:
        """Keep the card beside its token; where that is gone, it goes."""
        if self._card is None or self._card.isHidden() or self._card.spot is None:
            return
        message_id, number = self._card.spot
        index = self._view.rows.index_of(message_id)
        body = self._body(index) if index is not None else None
        if index is None or body is None or number >= len(body.tokens.tokens):
            self.hide_card()
            return
        rect = self._rect_of(index, body, number)
        rect.translate(self._view.column_x, -self._view.scroll_top)
        area = self._view.viewport().rect()
        if not rect.toRect().intersects(area):
            self.hide_card()
            return
        window = self._view.window()
        corner = self._view.viewport().mapTo(window, QPoint(0, 0))
        self._card.place(rect.toRect().translated(corner), area.translated(corner), window.rect())

    def _on_branch(self, requested: SignalInstance, token: int | bytes) -> None:
        spot = self._card.spot if self._card is not None else None
        document = self._documents.get(spot[0]) if spot is not None else None
        if spot is None or document is None:
            return
        place = document.tokens.place_of(spot[1])
        self.hide_card()
        self._view.setFocus(Qt.FocusReason.OtherFocusReason)
        if place is not None:
            requested.emit(spot[0], place, token)

    # --- inside ---------------------------------------------------------------------------------

    def _body(self, index: int) -> TokenBody | None:
        return self._view.rows.item(index).tokens

    def _single_shot(self, ms: int, act: Callable[[], None]) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(ms)
        timer.timeout.connect(act)
        return timer


def _state_of(message: Message) -> tuple[object, ...]:
    """What a message's tokens depend on."""
    if message.state is MessageState.STREAMING:
        return (True,)
    return (False, len(message.content), message.token_ids is None)


def text_of(message: Message) -> str:
    return f"{message.reasoning}\n{message.content}" if message.reasoning else message.content
