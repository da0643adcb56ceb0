"""The tour's card: what is seen, why it matters, one thing to try, and what came of it.

It stands on the window beside the live widget that it talks about, and blocks nothing: the window
below is used as ever. Enter goes on, Escape leaves, wherever in the card the keyboard is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractSlider,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.look.theme import Theme
from ui.shell.keys import TOUR_KEY, shown_key
from ui.shell.tab_order import put_in_order
from ui.widgets.elided_button import ElidedButton
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea

WIDTH_PX: Final = 320
LEAST_LINES: Final = 4
_Slide = QAbstractSlider.SliderAction
_SCROLLS: Final = {
    Qt.Key.Key_Down: _Slide.SliderSingleStepAdd,
    Qt.Key.Key_Up: _Slide.SliderSingleStepSub,
    Qt.Key.Key_PageDown: _Slide.SliderPageStepAdd,
    Qt.Key.Key_PageUp: _Slide.SliderPageStepSub,
}
TRY: Final = "Try: {}"
DONE: Final = "✓ {}"
YOURS: Final = "You guessed {guess}."
GUESSED: Final = "It is {answer}. You guessed {guess}."


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands on the card. `answer`: the text of the number that is guessed; empty where
    nothing is asked (`ask`). `done`: what is said once it was tried; empty before. `lack`: why what
    it talks about can't be seen now."""

    chapter: int
    step: int
    n_steps: int
    see: str
    why: str = ""
    ask: str = ""
    answer: str = ""
    try_: str = ""
    done: str = ""
    lack: str = ""
    is_first: bool = False
    is_last: bool = False


class TourCard(QFrame):
    """`chapter_wanted`: one by its number, from 0. `revealed`: it has other words now."""

    next_wanted = Signal()
    back_wanted = Signal()
    leave_wanted = Signal()
    again_wanted = Signal()
    chapter_wanted = Signal(int)
    page_wanted = Signal()
    revealed = Signal()

    def __init__(self, theme: Theme, titles: Sequence[str], parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._titles = tuple(titles)
        self._key: tuple[int, int] | None = None
        self._shown: Shown | None = None
        self._guess = ""
        self._is_revealed = False
        self.has_page = False
        self.setObjectName("tour_card")
        self.setProperty("plane", "above")
        self.setAccessibleName("Follow one token")
        self._make()
        self._lay_out()
        self.hide()

    def _make(self) -> None:
        theme = self._theme
        self.chapter_button = ElidedButton(self)
        self.chapter_button.setObjectName("tour_chapters")
        self.chapter_button.setProperty("kind", "quiet")
        self.chapter_button.setToolTip("Go to another chapter")
        self.chapter_button.clicked.connect(self._show_chapters)
        self.where = plain_label("", self, "small", name="tour_where")
        self.close_button = IconButton(
            theme, "x", "Leave the tour", hint="Leave the tour (Esc)", parent=self
        )
        self.close_button.setObjectName("tour_close")
        self.close_button.clicked.connect(self.leave_wanted)
        self.inside = QWidget(self)
        self.see = plain_label("", self.inside, name="tour_see", wraps=True)
        self.why = plain_label("", self.inside, "small", name="tour_why", wraps=True)
        self.ask = plain_label("", self.inside, name="tour_ask", wraps=True)
        self.guess = QLineEdit(self.inside)
        self.guess.setObjectName("tour_guess")
        self.guess.setAccessibleName("Your guess")
        self.guess.setPlaceholderText("Your guess")
        self.check_button = push_button(
            "Check", self.inside, "tour_check", kind="compact", act=self._check
        )
        self.try_ = plain_label("", self.inside, "strong", name="tour_try", wraps=True)
        self.done = plain_label("", self.inside, name="tour_done", wraps=True)
        self.lack = plain_label("", self.inside, "caution", name="tour_lack", wraps=True)
        self.back_button = push_button(
            "Back", self, "tour_back", kind="compact", act=self.back_wanted
        )
        self.next_button = push_button(
            "Next", self, "tour_next", kind="primary", act=self.next_wanted
        )
        self.again_button = push_button(
            "Show me again",
            self,
            "tour_again",
            kind="quiet",
            hint=f"Go there with the keyboard; {shown_key(TOUR_KEY)} comes back here",
            act=self.again_wanted,
        )
        self.page_button = push_button(
            "Save as a page…", self.inside, "tour_page", kind="compact", act=self.page_wanted
        )
        for button in (self.chapter_button, self.back_button, self.next_button, self.page_button):
            button.setAutoDefault(False)
        theme.font(self.again_button, Theme.font_small)
        theme.font(self.chapter_button, Theme.font_small)
        theme.size(self.close_button, 22, 22)

    def _lay_out(self) -> None:
        theme = self._theme
        head = QHBoxLayout()
        head.addWidget(self.chapter_button)
        head.addStretch(0)
        head.addWidget(self.where)
        head.addWidget(self.close_button)
        asked = QHBoxLayout()
        asked.addWidget(self.guess, 1)
        asked.addWidget(self.check_button)
        rows = QVBoxLayout(self.inside)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.addWidget(self.ask)
        rows.addLayout(asked)
        for label in (self.see, self.why, self.try_, self.done, self.lack):
            rows.addWidget(label)
        page = QHBoxLayout()
        page.addWidget(self.page_button)
        page.addStretch(1)
        rows.addLayout(page)
        rows.addStretch(1)
        self._area = SteadyArea(self)
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setWidget(self.inside)
        self.inside.setAutoFillBackground(False)
        self._area.viewport().setAutoFillBackground(False)
        foot = QHBoxLayout()
        foot.addWidget(self.again_button)
        foot.addStretch(1)
        foot.addWidget(self.back_button)
        foot.addWidget(self.next_button)
        self._column = QVBoxLayout(self)
        self._column.addLayout(head)
        self._column.addWidget(self._area, 1)
        self._column.addLayout(foot)
        theme.space(self._column, 8, margins=12)
        for layout in (head, asked, foot):
            theme.space(layout, 6)
        theme.space(rows, 8)
        put_in_order(
            [
                *(self.guess, self.check_button, self.page_button, self.next_button),
                *(self.back_button, self.again_button, self.chapter_button, self.close_button),
            ],
            self.next_button,
        )

    # --- what is shown --------------------------------------------------------------------------

    def show_step(self, shown: Shown) -> None:
        """A step, or the same one with more that is known."""
        if (shown.chapter, shown.step) != self._key:
            self._key = (shown.chapter, shown.step)
            self._guess, self._is_revealed = "", False
            self.guess.clear()
            self._area.verticalScrollBar().setValue(0)
        self._shown = shown
        self.chapter_button.setText(f"{shown.chapter + 1}. {self._titles[shown.chapter]} ▾")
        self.chapter_button.setAccessibleName(f"Chapters: {self._titles[shown.chapter]}")
        self.where.setText(f"{shown.step + 1} of {shown.n_steps}")
        self.where.setAccessibleName(f"Step {shown.step + 1} of {shown.n_steps}")
        self.back_button.setEnabled(not shown.is_first)
        self.page_button.setVisible(shown.is_last and self.has_page)
        self._say()

    def _say(self) -> None:
        shown = self._shown
        assert shown is not None
        # Also while it is on its way: what is being read must not turn into a question.
        has_question = bool(shown.ask) and (bool(shown.answer) or not shown.lack)
        self._is_revealed = self._is_revealed or bool(shown.done)
        is_open = has_question and not self._is_revealed
        told = self._told(shown) if self._guess else ""
        self.ask.setText(told or shown.ask)
        self.ask.setVisible(is_open or bool(told))
        self.guess.setVisible(is_open)
        self.check_button.setVisible(is_open)
        self.next_button.setText("Show" if is_open else "Finish" if shown.is_last else "Next")
        # The number stands in what is seen: that comes after the guess, or without one by Show.
        for label, text in (
            (self.see, "" if is_open else shown.see),
            (self.why, "" if is_open else shown.why),
            (self.try_, TRY.format(shown.try_) if shown.try_ and not is_open else ""),
            (self.done, DONE.format(shown.done) if shown.done and not is_open else ""),
            (self.lack, shown.lack),
        ):
            label.setText(text)
            label.setVisible(bool(text))
        words = self.words()
        if words != self.accessibleDescription():
            self.setAccessibleDescription(words)
            # The button has the keyboard, so the words are said with it.
            self.next_button.setAccessibleDescription(words)

    def _told(self, shown: Shown) -> str:
        """What is said of the guess."""
        if not shown.answer:
            return YOURS.format(guess=self._guess)
        return GUESSED.format(answer=shown.answer, guess=self._guess)

    def words(self) -> str:
        """All that is read on it now."""
        labels = (self.ask, self.see, self.why, self.try_, self.done, self.lack)
        return " ".join(label.text() for label in labels if not label.isHidden())

    @property
    def is_asking(self) -> bool:
        """Whether a number is still to be guessed."""
        return not self.guess.isHidden()

    def reveal(self) -> None:
        """The answer, without a guess."""
        self._is_revealed = True
        self._say()
        self.revealed.emit()

    def _check(self) -> None:
        guess = self.guess.text().strip()
        if guess:
            self._guess = guess
            self.reveal()
            self.next_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def wanted_size(self, width: int = 0) -> QSize:
        """With all of its words, as wide as it is usually, or so wide."""
        width = width or self._theme.px(WIDTH_PX)
        margins = self._column.contentsMargins()
        room = width - margins.left() - margins.right() - self._border().width()
        layout = self.inside.layout()
        assert layout is not None
        layout.invalidate()
        return QSize(width, self._rest() + layout.heightForWidth(room))

    def stand_at(self, spot: QRect) -> None:
        self._area.allow_bar(spot.height() < self.wanted_size(spot.width()).height())
        if spot != self.geometry():
            self.setGeometry(spot)

    def least_height(self) -> int:
        """In which some lines of it can be read at once."""
        return self._rest() + LEAST_LINES * self.see.fontMetrics().lineSpacing()

    def _rest(self) -> int:
        """Head, foot, margins and border."""
        rest = self._column.sizeHint().height() - self._area.sizeHint().height()
        return rest + self._border().height()

    def _border(self) -> QSize:
        return self.size() - self.contentsRect().size()

    # --- acts -----------------------------------------------------------------------------------

    def _show_chapters(self) -> None:
        menu = QMenu(self)
        menu.setObjectName("tour_chapter_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for at, title in enumerate(self._titles):
            entry = menu.addAction(f"{at + 1}. {title}")
            entry.setCheckable(True)
            entry.setChecked(self._shown is not None and at == self._shown.chapter)
            entry.triggered.connect(lambda _=False, at=at: self.chapter_wanted.emit(at))
        menu.popup(self.chapter_button.mapToGlobal(self.chapter_button.rect().bottomLeft()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key == Qt.Key.Key_Escape:
            self.leave_wanted.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._enter()
        elif key in _SCROLLS:
            self._area.verticalScrollBar().triggerAction(_SCROLLS[key])
        else:
            super().keyPressEvent(event)

    def _enter(self) -> None:
        focus = self.focusWidget()
        if focus is self.guess and self.guess.text().strip():
            self._check()
        elif isinstance(focus, QPushButton):
            focus.click()
        else:
            self.next_wanted.emit()
