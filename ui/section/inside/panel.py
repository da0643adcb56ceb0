"""*Inside*: one token of a reply on its way through the network that wrote it."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QFont, QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.card_column import CardColumn
from ui.section.inside.cards import CARDS
from ui.section.inside.token_cards import SamplingCard
from ui.section.inside.view import CANCELLED, CHOOSE, FIRST, InsideView
from ui.section.panel import Panel, Tools
from ui.widgets.elided import ElidedLabel, PartsLabel
from ui.widgets.kit import push_button

READING: Final = "Reading the text before this token: {done:,} of {total:,} tokens"
SHOW_TOKENS: Final = "Show this chat as tokens, so that each can be clicked"
WORKING: Final = "Replaying this token…"


class InsidePanel(Panel):
    title = "Inside"
    ability = "inside"
    is_of_reply = True

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self.setObjectName("panel_inside")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.view = InsideView(self._looking, tools.desk, tools.bridge, self)
        self._make_head()
        self.column = CardColumn(self)
        self.column.setObjectName("inside_column")
        self.cards = [load()(tools, self.view, self.column.body) for load in CARDS]
        self.column.fill(*self.cards)
        self.column.installEventFilter(self)
        self._build()
        for card in self.cards:
            card.measured.connect(self.measured)
            if isinstance(card, SamplingCard):
                card.panel_wanted.connect(self.panel_wanted)
        self.view.seen_changed.connect(self._say)
        self.view.progress_changed.connect(self._say_progress)
        self.cancel_button.clicked.connect(self.view.cancel)
        self.again_button.clicked.connect(self.view.again)
        self.tokens_button.clicked.connect(lambda _=False: self._show_tokens())
        self.first_button.clicked.connect(lambda _=False: self._looking.select(0))
        self._say()
        self._say_progress()

    # --- building -------------------------------------------------------------------------------

    def _make_head(self) -> None:
        self.words = ElidedLabel("", self)
        self.words.setObjectName("inside_words")
        self.place = PartsLabel("", self)
        self.place.setObjectName("inside_place")
        self.place.setProperty("kind", "small")
        self.sentence = small_label("", self)
        self.sentence.setObjectName("inside_sentence")
        self.tokens_button = push_button(
            "Show tokens", self, "inside_tokens_button", hint=SHOW_TOKENS
        )
        self.first_button = push_button("First token", self, "inside_first_button")
        self.again_button = push_button("Try again", self, "inside_again_button")
        self.bar = QProgressBar(self)
        self.bar.setObjectName("inside_progress")
        self.bar.setTextVisible(False)
        self.progress = small_label("", self)
        self.progress.setObjectName("inside_progress_words")
        self.cancel_button = push_button("Cancel", self, "inside_cancel_button")
        self.blank = QWidget(self)  # below a sentence that stands alone
        theme = self._theme
        theme.font(self.words, Theme.font_text, QFont.Weight.DemiBold)
        theme.font(self.place, Theme.font_small)
        for button in (
            self.tokens_button,
            self.first_button,
            self.again_button,
            self.cancel_button,
        ):
            button.setAutoDefault(False)
            theme.font(button, Theme.font_small)

    def _build(self) -> None:
        self._progress_row = QHBoxLayout()
        self._progress_row.addWidget(self.progress, 1)
        self._progress_row.addWidget(self.cancel_button)
        self._sentence_row = QHBoxLayout()
        self._sentence_row.addWidget(self.sentence, 1)
        self._sentence_row.addWidget(self.again_button)
        self._start_row = QHBoxLayout()
        self._start_row.addWidget(self.tokens_button)
        self._start_row.addWidget(self.first_button)
        self._start_row.addStretch(1)
        self._head = QVBoxLayout()
        self._head.addWidget(self.words)
        self._head.addWidget(self.place)
        self._head.addLayout(self._sentence_row)
        self._head.addLayout(self._start_row)
        self._head.addWidget(self.bar)
        self._head.addLayout(self._progress_row)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(self._head)
        column.addWidget(self.column, 1)
        column.addWidget(self.blank, 1)
        theme = self._theme
        theme.space(column, 8)
        theme.space(self._head, 2)
        theme.space(self._progress_row, 8)
        theme.space(self._sentence_row, 8)
        theme.space(self._start_row, 8)
        theme.space(self.column.rows, 8)
        theme.at_least(self.column, height=160)

    # --- following ------------------------------------------------------------------------------

    def set_active(self, is_active: bool) -> None:
        super().set_active(is_active)
        self.view.set_awake(is_active)
        for card in self.cards:
            card.set_active(is_active)

    def enter(self, room: str) -> object:
        """Open a card, by its name, and bring it into view."""
        card = next((each for each in self.cards if each.name == room), None)
        if card is not None:
            card.set_open(True)
            QTimer.singleShot(0, card, lambda: self.column.show_top(card))
        return card

    def _say(self) -> None:
        view = self.view
        has_place = view.place is not None and view.text is not None
        self.words.setVisible(has_place)
        self.place.setVisible(has_place)
        if has_place:
            voted = view.piece(view.place + 1) if view.target is not None else "?"  # type: ignore[operator]
            self.words.set_text(f"“{view.read_word}” → “{voted}”")
            self.place.set_text(self._place_words())
        note = view.text.note if has_place and view.text is not None else ""
        self.sentence.setText(view.sentence or note)
        self.sentence.setVisible(bool(view.sentence or note))
        can_choose = view.sentence == CHOOSE and len(self._looking.traces) > 0
        if not can_choose and self.first_button.hasFocus():
            self.setFocus(Qt.FocusReason.OtherFocusReason)
        self.first_button.setVisible(can_choose)
        has_tokens = self._tools.desk.settings.now.token_view
        self.tokens_button.setVisible(can_choose and not has_tokens)
        can_try = bool(view.sentence) and view.sentence not in (CHOOSE, FIRST)
        if self.again_button.hasFocus():
            self.setFocus(Qt.FocusReason.OtherFocusReason)
        self.again_button.setText("Continue" if view.sentence == CANCELLED else "Try again")
        self.again_button.setVisible(can_try and has_place)
        has_cards = has_place and (view.seen is not None or view.is_waiting)
        shown = [card for card in self.cards if has_cards or card.is_about_file or card.lack]
        for card in self.cards:
            card.setVisible(card in shown)
        self.column.setVisible(bool(shown))
        self.blank.setVisible(not shown)

    def _show_tokens(self) -> None:
        """There each is to be clicked."""
        self.first_button.setFocus(Qt.FocusReason.OtherFocusReason)
        self.tokens_button.hide()
        self._tools.desk.settings.set("token_view", True)

    def _place_words(self) -> str:
        view, text = self.view, self.view.text
        assert text is not None
        assert view.place is not None
        where = "reply" if text.index_of(view.place) is not None else "prompt"
        return f"Reads token {view.place + 1:,} of {len(text):,}, in the {where} · ← → to step"

    def _say_progress(self) -> None:
        view = self.view
        is_shown = view.is_waiting and not view.is_patient
        if not is_shown and self.cancel_button.hasFocus():
            self.setFocus(Qt.FocusReason.OtherFocusReason)
        self.progress.setVisible(is_shown)
        self.cancel_button.setVisible(is_shown)
        done, total = view.progress or (0, 0)
        is_reading = is_shown and done < total
        self.bar.setVisible(is_reading)
        self.bar.setRange(0, max(total, 1))
        self.bar.setValue(done)
        self.progress.setText(READING.format(done=done, total=total) if is_reading else WORKING)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """The scrolled column would take the arrow keys that go to the next token."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            return self._steps(event)
        return False

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self._steps(event):
            super().keyPressEvent(event)

    def _steps(self, event: QKeyEvent) -> bool:
        by = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if by is None or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            return False
        self.view.step(by)
        return True
