"""*Follow one token*: which step is shown, where its card stands, and what was done there.

    tour.start()         from the first step, or where it was left
    tour.go(3, 1)        any other
    tour.leave()         the window is as before; `start` comes back here

The card follows its widget: a panel that is closed, scrolled, resized or rebuilt moves the card,
and one that is gone leaves it in the corner, from where "Show me again" brings it back. Texts are
said anew whenever a fact becomes known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QWidget
from shiboken6 import isValid

from app.chat.tour.chapters import Chapter, Step, facts_in, said
from app.insight.tour.facts import Facts
from ui.look.theme import Theme
from ui.tour.card import Shown, TourCard
from ui.tour.outline import Ring
from ui.tour.placing import place
from ui.tour.spots import Spots, bring_into_view, panel_around, take_keyboard
from ui.widgets.kit import rest_timer

GAP_PX: Final = 12
MARGIN_PX: Final = 8
DONE: Final = "Done."
GONE: Final = "This part isn’t on screen now."
_MOVES: Final = frozenset(
    (
        QEvent.Type.Move,
        QEvent.Type.Resize,
        QEvent.Type.Show,
        QEvent.Type.Hide,
        QEvent.Type.LayoutRequest,
    )
)
_OWN_WAY: Final = frozenset((QEvent.Type.Wheel, QEvent.Type.MouseButtonPress))
"""Whoever scrolls or clicks goes where he wants."""


class FactSource(Protocol):
    """Tells what is known of the token that is looked at (`LiveFacts`)."""

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


class Stage(Protocol):
    """The window around the tour."""

    @property
    def is_text(self) -> bool:
        """Whether a text document is open, which has no messages."""

    def follow_token(self) -> None:
        """One of the reply, where none is chosen."""

    def keep_token(self) -> None:
        """The one that is chosen can be returned to."""

    def return_token(self) -> None:
        """To the one that was kept."""

    def lack(self) -> str:
        """Why nothing can be measured now; empty where it can."""

    def corner(self) -> QRect:
        """Where a card stands that has nothing beside it, in the window's coordinates."""

    def remember(self, place: str) -> None:
        """Where one is ("3/lens")."""

    def take_keyboard(self) -> None:
        """It goes to where the next words are written."""


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
        stage: Stage,
    ) -> None:
        super().__init__(host)
        self._host = host
        self._theme = theme
        self._chapters = tuple(chapters)
        self._spots = spots
        self._facts = facts
        self._acts = acts
        self._stage = stage
        self._at: tuple[int, int] | None = None
        self._is_done = False
        self._is_bringing = False
        self._watched: list[QWidget] = []
        self._focus_before: QWidget | None = None
        self.outline = Ring(theme, host)
        self.card = TourCard(theme, [chapter.title for chapter in chapters], host)
        self._settling = rest_timer(self, self._settle)
        host.installEventFilter(self)
        theme.changed.connect(self._settling.start)
        facts.changed.connect(self._say)
        acts.done.connect(self._on_act)
        self.card.next_wanted.connect(self.forward)
        self.card.back_wanted.connect(self.back)
        self.card.leave_wanted.connect(self.leave)
        self.card.again_wanted.connect(self.show_again)
        self.card.revealed.connect(self._settle)
        self.card.chapter_wanted.connect(lambda chapter: self.go(chapter, 0))

    # --- where one is ---------------------------------------------------------------------------

    @property
    def step(self) -> Step | None:
        """The one that is shown."""
        if self._at is None:
            return None
        step = self._chapters[self._at[0]].steps[self._at[1]]
        return step.in_text() if self._stage.is_text else step

    @property
    def place(self) -> tuple[int, int] | None:
        """Chapter and step, from 0; None while it isn't shown."""
        return self._at

    def start(self, left_at: str = "") -> None:
        """Where it was left ("4/lens"), else from the beginning."""
        self.go(*(self._place_called(left_at) or (0, 0)))

    def go(self, chapter: int, step: int) -> None:
        former, is_other = self.step, self._at != (chapter, step)
        if former is None:
            self._focus_before = QApplication.focusWidget()
        elif former.returns and is_other:
            self._stage.return_token()
        self._at = (chapter, step)
        self._is_done = False
        now = self.step
        assert now is not None
        self._stage.remember(f"{chapter + 1}/{now.name}")
        self._stage.follow_token()
        if is_other:
            self._stage.keep_token()
        self._facts.want(_wanted(now))
        self._bring(now)
        self._acts.hear(now.act)
        self._say()
        self.outline.raise_()
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
            return
        chapter, step = self._at
        if step + 1 < len(self._chapters[chapter].steps):
            self.go(chapter, step + 1)
        elif chapter + 1 < len(self._chapters):
            self.go(chapter + 1, 0)
        else:
            self.leave()
            self._stage.remember(f"1/{self._chapters[0].steps[0].name}")

    def back(self) -> None:
        if self._at is None or self._at == (0, 0):
            return
        chapter, step = self._at
        if step:
            self.go(chapter, step - 1)
        else:
            self.go(chapter - 1, len(self._chapters[chapter - 1].steps) - 1)

    def leave(self) -> None:
        """It resumes here. The keyboard goes back to where it was, unless it is elsewhere now."""
        if self._at is None:
            return
        has_focus = self.card.isAncestorOf(QApplication.focusWidget() or self._host)
        before, self._focus_before = self._focus_before, None
        self._at = None
        self._acts.hear("")
        self._facts.want(frozenset())
        self._watch([])
        if has_focus and before is not None and isValid(before) and before.isVisible():
            before.setFocus(Qt.FocusReason.OtherFocusReason)
        elif has_focus:
            self._stage.take_keyboard()
        self.card.hide()
        self.outline.hide()
        self.moved.emit()

    def show_again(self) -> None:
        """What the card talks about comes on screen, with the keyboard."""
        step = self.step
        if step is None:
            return
        self._stage.follow_token()
        self._bring(step)
        self._acts.hear(step.act)  # its widgets may be built only now
        self._say()
        self._settle()
        found = self._spots.find(step.at)
        if found is not None:
            take_keyboard(found)

    def follow(self) -> None:
        """Another chat is open, or another model: the step may be another one there."""
        step = self.step
        if step is not None:
            self._facts.want(_wanted(step))
            self._acts.hear("" if self._is_done else step.act)
            self._say()

    def _bring(self, step: Step) -> None:
        self._is_bringing = True
        self._spots.show(step.at)

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
                done=(said(step.done, facts) or DONE) if self._is_done else "",
                lack=self._lack(step),
                is_first=self._at == (0, 0),
                is_last=self._at == last,
            )
        )
        self._settling.start()

    def _lack(self, step: Step) -> str:
        """Why what it talks about can't be seen."""
        return self._stage.lack() or ("" if self._spots.find(step.at) is not None else GONE)

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
        self._watch([each for each in (widget, self._spots.built(step.at)) if each is not None])
        if self._lack(step) != self.card.lack.text():
            self._say()
        if widget is not None and self._is_bringing:
            bring_into_view(widget, self._theme.px(MARGIN_PX))
        aim = self._seen(widget)
        margin = self._theme.px(MARGIN_PX)
        window = self._host.rect().adjusted(margin, margin, -margin, -margin)
        self.outline.show_around(aim, self._host.rect())
        if widget is None or aim.isEmpty():
            spot = self._corner(window)
        else:
            panel = self._seen(panel_around(widget, step.at))
            spot = self._beside_panel(aim, panel, window) or self._beside(aim, window)
        self.card.stand_at(spot)

    def _corner(self, window: QRect) -> QRect:
        """Where it is in nobody's way, if there is room."""
        size = self.card.wanted_size()
        corner = self._stage.corner().intersected(window)
        has_room = corner.width() >= size.width() and corner.height() >= size.height()
        return place(size, QRect(), corner if has_room else window, 0)

    def _beside_panel(self, aim: QRect, panel: QRect, window: QRect) -> QRect | None:
        """Where it hides nothing of the panel, at the height of its widget."""
        band = QRect(panel.left(), aim.top(), panel.width(), aim.height())
        spot = place(self.card.wanted_size(), band, window, self._theme.px(GAP_PX))
        return None if spot.intersects(panel) else spot

    def _beside(self, aim: QRect, window: QRect) -> QRect:
        """Where there is no room beside its widget for a card of the usual form, a wide and low
        one may cover less of it."""
        gap = self._theme.px(GAP_PX)
        spot = place(self.card.wanted_size(), aim, window, gap)
        covered = _area(spot & aim)
        if not covered:
            return spot
        wide = self.card.wanted_size(window.width())
        low = max(window.height() // 2, self.card.least_height())
        flat = place(QSize(wide.width(), min(wide.height(), low)), aim, window, gap)
        return flat if _area(flat & aim) < covered else spot

    def _seen(self, widget: QWidget | None) -> QRect:
        """What can be seen of a widget, in the host's coordinates."""
        if widget is None:
            return QRect()
        seen, holder = widget.rect(), widget
        while holder is not self._host:
            outer = holder.parentWidget()
            if outer is None:
                return QRect()
            seen = seen.translated(holder.mapTo(outer, QPoint())) & outer.rect()
            holder = outer
        return seen

    def _watch(self, widgets: Sequence[QWidget]) -> None:
        """Hear of their moves, and of those of all that they stand in."""
        chain: dict[QWidget, None] = {}
        for widget in widgets:
            each: QWidget | None = widget
            while each is not None and each is not self._host:
                chain[each] = None
                if isinstance(each, QAbstractScrollArea):
                    chain[each.verticalScrollBar()] = None
                each = each.parentWidget()
        if list(chain) == self._watched:
            return
        for former in self._watched:
            if isValid(former):
                former.removeEventFilter(self)
        for each in chain:
            each.installEventFilter(self)
        self._watched = list(chain)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if self._at is None:
            return False
        kind = event.type()
        if kind in _MOVES:
            self._settling.start()
        elif kind in _OWN_WAY and watched is not self._host:
            self._is_bringing = False
        elif watched is self._host and kind == QEvent.Type.KeyPress:
            return self._take_key(event)
        return False

    def _take_key(self, event: QEvent) -> bool:
        """One that nothing else wanted, or it would not have come up to the window."""
        is_escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if is_escape:
            self.leave()
        return is_escape


def _wanted(step: Step) -> frozenset[str]:
    """The facts that a step may say."""
    names = {name for sentence in step.sentences() for name in facts_in(sentence)}
    return frozenset(names | ({step.predict.fact} if step.predict is not None else set()))


def _area(rect: QRect) -> int:
    return 0 if rect.isEmpty() else rect.width() * rect.height()
