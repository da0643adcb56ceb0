"""*Follow one token*: which step is shown, where its card stands, and what was done there.

    tour.start()         from the first step, or where it was left
    tour.go(3, 1)        any other
    tour.leave()         the window is as before; `start` comes back here

The card follows its widget: a panel that is closed, scrolled, resized or rebuilt moves the card,
and one that is gone leaves it in the corner. Texts are said anew whenever a fact becomes known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, Signal, SignalInstance
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.chat.tour.chapters import Chapter, Step, facts_in, said
from app.insight.tour.facts import Facts
from ui.look.theme import Theme
from ui.tour.card import Shown, TourCard
from ui.tour.placing import place
from ui.tour.spots import Spots
from ui.widgets.kit import rest_timer

GAP_PX: Final = 12
MARGIN_PX: Final = 8
_MOVES: Final = frozenset(
    (
        QEvent.Type.Move,
        QEvent.Type.Resize,
        QEvent.Type.Show,
        QEvent.Type.Hide,
        QEvent.Type.LayoutRequest,
    )
)


class FactSource(Protocol):
    """Tells what is known of the token that is looked at (`TourFacts`)."""

    @property
    def changed(self) -> SignalInstance: ...
    @property
    def facts(self) -> Facts: ...
    def want(self, names: frozenset[str]) -> None: ...


class ActSource(Protocol):
    """Tells what was tried (`Acts`)."""

    @property
    def done(self) -> SignalInstance: ...
    def hear(self, act: str) -> None: ...


class Tour(QObject):
    """`moved`: to another step, or it began or was left (`step` is None then)."""

    moved = Signal()

    def __init__(
        self,
        host: QWidget,
        theme: Theme,
        chapters: Sequence[Chapter],
        spots: Spots,
        facts: FactSource,
        acts: ActSource,
        remember: Callable[[str], None],
    ) -> None:
        super().__init__(host)
        self._host = host
        self._theme = theme
        self._chapters = tuple(chapters)
        self._spots = spots
        self._facts = facts
        self._acts = acts
        self._remember = remember
        self._at: tuple[int, int] | None = None
        self._is_done = False
        self._watched: list[QWidget] = []
        self.card = TourCard(theme, [chapter.title for chapter in chapters], host)
        self._settling = rest_timer(self, self._settle)
        host.installEventFilter(self)
        theme.changed.connect(self._settling.start)
        facts.changed.connect(self._say)
        acts.done.connect(self._on_act)
        self.card.next_wanted.connect(self.forward)
        self.card.back_wanted.connect(self.back)
        self.card.leave_wanted.connect(self.leave)
        self.card.chapter_wanted.connect(lambda chapter: self.go(chapter, 0))

    # --- where one is ---------------------------------------------------------------------------

    @property
    def step(self) -> Step | None:
        """The one that is shown."""
        return None if self._at is None else self._chapters[self._at[0]].steps[self._at[1]]

    @property
    def place(self) -> tuple[int, int] | None:
        """Chapter and step, from 0; None while it isn't shown."""
        return self._at

    def start(self, left_at: str = "") -> None:
        """Where it was left ("4/lens"), else from the beginning."""
        self.go(*(self._place_called(left_at) or (0, 0)))

    def go(self, chapter: int, step: int) -> None:
        self._at = (chapter, step)
        self._is_done = False
        now = self.step
        assert now is not None
        self._remember(f"{chapter + 1}/{now.name}")
        self._facts.want(_wanted(now))
        self._spots.show(now.at)
        self._acts.hear(now.act)
        self._say()
        self.card.show()
        self.card.raise_()
        self._settle()
        self.card.next_button.setFocus(Qt.FocusReason.OtherFocusReason)
        self.moved.emit()

    def forward(self) -> None:
        """To the next step; first the answer, where a number is being guessed."""
        if self._at is None:
            return
        if self.card.is_asking:
            self.card.reveal()
            self._settle()
            return
        chapter, step = self._at
        if step + 1 < len(self._chapters[chapter].steps):
            self.go(chapter, step + 1)
        elif chapter + 1 < len(self._chapters):
            self.go(chapter + 1, 0)
        else:
            self.leave()
            self._remember(f"1/{self._chapters[0].steps[0].name}")

    def back(self) -> None:
        if self._at is None or self._at == (0, 0):
            return
        chapter, step = self._at
        if step:
            self.go(chapter, step - 1)
        else:
            self.go(chapter - 1, len(self._chapters[chapter - 1].steps) - 1)

    def leave(self) -> None:
        """It resumes here."""
        if self._at is None:
            return
        self._at = None
        self._acts.hear("")
        self._facts.want(frozenset())
        self._watch(None)
        self.card.hide()
        self.moved.emit()

    def _place_called(self, name: str) -> tuple[int, int] | None:
        number, _, step_name = name.partition("/")
        chapter = int(number) - 1 if number.isdecimal() else -1
        if not 0 <= chapter < len(self._chapters):
            return None
        names = [step.name for step in self._chapters[chapter].steps]
        return (chapter, names.index(step_name)) if step_name in names else (chapter, 0)

    # --- what is said ---------------------------------------------------------------------------

    def _say(self) -> None:
        step = self.step
        if step is None or self._at is None:
            return
        chapter, number = self._at
        facts = self._facts.facts
        guess = step.predict
        answer = facts.get(guess.fact) if guess is not None else None
        last = (len(self._chapters) - 1, len(self._chapters[-1].steps) - 1)
        self.card.show_step(
            Shown(
                chapter,
                number,
                len(self._chapters[chapter].steps),
                see=said(step.see, facts),
                why=said(step.why, facts),
                ask="" if guess is None else said((guess.ask,), facts),
                answer="" if answer is None else answer.text,
                try_=said((step.try_,), facts) if step.try_ else "",
                done=said(step.done, facts) if self._is_done else "",
                is_first=self._at == (0, 0),
                is_last=self._at == last,
            )
        )
        self._settling.start()

    def _on_act(self, act: str) -> None:
        if self.step is not None and act == self.step.act and not self._is_done:
            self._is_done = True
            self._say()

    # --- where it stands ------------------------------------------------------------------------

    def _settle(self) -> None:
        """The card beside its widget, as that stands now."""
        step = self.step
        if step is None:
            return
        widget = self._spots.find(step.at)
        self._watch(widget)
        margin = self._theme.px(MARGIN_PX)
        window = self._host.rect().adjusted(margin, margin, -margin, -margin)
        spot = place(self.card.wanted_size(), self._seen(widget), window, self._theme.px(GAP_PX))
        if spot != self.card.geometry():
            self.card.setGeometry(spot)

    def _seen(self, widget: QWidget | None) -> QRect:
        """What can be seen of a widget, in the host's coordinates."""
        if widget is None:
            return QRect()
        seen = widget.visibleRegion().boundingRect()
        return QRect(widget.mapTo(self._host, QPoint()) + seen.topLeft(), seen.size())

    def _watch(self, widget: QWidget | None) -> None:
        """Hear of its moves, and of those of all that it stands in."""
        chain: list[QWidget] = []
        while widget is not None and widget is not self._host:
            chain.append(widget)
            widget = widget.parentWidget()
        if chain == self._watched:
            return
        for each in self._watched:
            if isValid(each):
                each.removeEventFilter(self)
        for each in chain:
            each.installEventFilter(self)
        self._watched = chain

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if self._at is not None and event.type() in _MOVES and watched is not self.card:
            self._settling.start()
        return False


def _wanted(step: Step) -> frozenset[str]:
    """The facts that a step may say."""
    names = {name for sentence in step.sentences() for name in facts_in(sentence)}
    return frozenset(names | ({step.predict.fact} if step.predict is not None else set()))
