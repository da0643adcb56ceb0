"""Which step is shown, where the card stands beside a live widget, and what was done there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from own_look import kept_look
from PySide6.QtCore import QObject, QPoint, QRect, Qt, Signal
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QMainWindow,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.chat.tour.chapters import Chapter, Guess, Instead, Spot, Step
from app.insight.tour.facts import Fact, Facts
from ui.look.theme import Theme
from ui.tour.spots import Spots
from ui.tour.tour import GONE, Tour

CHAPTERS = (
    Chapter(
        "First",
        (
            Step("one", Spot("target"), ("You see {n} things.", "Or not."), try_="Do.", act="did"),
            Step("two", Spot("other"), ("More.",), act="also", done=("Done with {n}.", "Done.")),
        ),
    ),
    Chapter(
        "Second",
        (
            Step(
                "three",
                Spot("target"),
                ("It is {n}.",),
                predict=Guess("How many?", "n"),
                try_="Send a message.",
                act="sent",
                done=("Sent.",),
                text=Instead("Press “Continue”.", "wrote", ("Written.",), Spot("other")),
            ),
        ),
    ),
)
SEVEN: Facts = {"n": Fact(7, "7")}


class Known(QObject):
    """Facts that a test gives."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.facts: Facts = {}
        self.wanted: frozenset[str] = frozenset()

    def want(self, names: frozenset[str]) -> None:
        self.wanted = names

    def know(self, facts: Facts) -> None:
        self.facts = facts
        self.changed.emit()


class Done(QObject):
    done = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.heard = ""

    def hear(self, act: str) -> None:
        self.heard = act


class Room:
    """The window around it: a stage."""

    def __init__(self, window: QMainWindow) -> None:
        self.window = window
        self.is_text = False
        self.without = ""
        self.place = ""
        self.followed = 0

    def follow_token(self) -> None:
        self.followed += 1

    def keep_token(self) -> None: ...

    def return_token(self) -> None: ...

    def lack(self) -> str:
        return self.without

    def corner(self) -> QRect:
        return QRect(300, 0, 500, 500)

    def remember(self, place: str) -> None:
        self.place = place

    def take_keyboard(self) -> None:
        self.window.field.setFocus()  # type: ignore[attr-defined]


class Acts:
    """Stands for the section's acts and the columns."""

    def __init__(self, window: QMainWindow) -> None:
        self.window = window
        self.shown = 0

    def go_to(self, panel: str, room: str = "") -> None: ...

    def go_to_chat(self) -> None:
        self.shown += 1
        self.window.area.show()  # type: ignore[attr-defined]


class Window(QMainWindow):
    """A field at the left, and in a scrolled column at the right two widgets."""

    def __init__(self) -> None:
        super().__init__()
        self.resize(900, 600)
        self.field = QLineEdit(self)
        self.field.setGeometry(10, 10, 200, 30)
        self.area = QScrollArea(self)
        self.area.setGeometry(500, 50, 380, 400)
        inner = QWidget()
        column = QVBoxLayout(inner)
        self.target = QPushButton("target", inner)
        self.other = QPushButton("other", inner)
        for widget in (self.target, self.other):
            widget.setObjectName(widget.text())
            widget.setFixedSize(300, 60)
            column.addWidget(widget)
        column.insertSpacing(1, 700)
        self.area.setWidget(inner)


@pytest.fixture(scope="module", autouse=True)
def dressed(qapp: QApplication) -> Iterator[None]:
    with kept_look(qapp):
        Theme("light").apply_to(qapp)
        yield


class Visitor:
    def __init__(
        self, qtbot: QtBot, theme: Theme, chapters: tuple[Chapter, ...] = CHAPTERS
    ) -> None:
        self.qtbot = qtbot
        self.window = Window()
        qtbot.addWidget(self.window)
        self.facts, self.acts, self.room = Known(), Done(), Room(self.window)
        self.columns = Acts(self.window)
        spots = Spots(self.window, self.columns)  # type: ignore[arg-type]
        self.tour = Tour(self.window, theme, chapters, spots, self.facts, self.acts, self.room)
        self.window.show()
        self.window.activateWindow()
        qtbot.waitUntil(self.window.isActiveWindow)
        self.window.field.setFocus()

    @property
    def card(self) -> Any:
        return self.tour.card

    def settle(self) -> None:
        for _ in range(4):
            QApplication.processEvents()

    def is_inside(self) -> bool:
        self.settle()
        return self.card.isVisible() and self.window.rect().contains(self.card.geometry())

    def seen(self, widget: QWidget) -> QRect:
        return QRect(widget.mapTo(self.window, QPoint()), widget.size())


@pytest.fixture
def visitor(qtbot: QtBot, theme: Theme) -> Visitor:
    return Visitor(qtbot, theme)


def test_it_is_not_there_until_it_is_started(visitor: Visitor) -> None:
    assert visitor.tour.place is None
    assert visitor.tour.step is None
    assert not visitor.card.isVisible()
    visitor.tour.forward()
    visitor.tour.back()
    visitor.tour.leave()
    assert not visitor.card.isVisible()


def test_it_begins_with_the_first_step(visitor: Visitor) -> None:
    visitor.tour.start()
    assert visitor.tour.place == (0, 0)
    assert visitor.room.place == "1/one"
    assert visitor.room.followed == 1
    assert visitor.acts.heard == "did"
    assert visitor.facts.wanted == {"n"}
    assert visitor.card.see.text() == "Or not."
    assert visitor.card.next_button.hasFocus()


@pytest.mark.parametrize(
    ("left_at", "place"),
    [
        ("2/three", (1, 0)),
        ("1/two", (0, 1)),
        ("1/gone", (0, 0)),
        ("3/one", (0, 0)),
        ("0/one", (0, 0)),
        ("²/one", (0, 0)),
        ("nonsense", (0, 0)),
    ],
)
def test_it_resumes_where_it_was_left(
    visitor: Visitor, left_at: str, place: tuple[int, int]
) -> None:
    visitor.tour.start(left_at)
    assert visitor.tour.place == place


def test_it_goes_on_and_back_through_the_chapters(visitor: Visitor) -> None:
    tour = visitor.tour
    tour.start()
    places = []
    for _ in range(2):
        tour.forward()
        places.append(tour.place)
    tour.back()
    places.append(tour.place)
    tour.back()
    tour.back()
    places.append(tour.place)
    assert places == [(0, 1), (1, 0), (0, 1), (0, 0)]


def test_at_its_end_it_begins_anew_the_next_time(visitor: Visitor) -> None:
    visitor.tour.go(1, 0)
    visitor.tour.forward()  # the answer
    visitor.tour.forward()
    assert visitor.tour.place is None
    assert not visitor.card.isVisible()
    assert not visitor.tour.outline.isVisible()
    assert visitor.room.place == "1/one"


def test_a_fact_that_becomes_known_is_said(visitor: Visitor) -> None:
    visitor.tour.start()
    visitor.facts.know(SEVEN)
    assert visitor.card.see.text() == "You see 7 things. Or not."
    visitor.facts.know({})
    assert visitor.card.see.text() == "Or not."


def test_next_reveals_the_number_first(visitor: Visitor) -> None:
    visitor.facts.know(SEVEN)
    visitor.tour.go(1, 0)
    assert visitor.card.is_asking
    visitor.tour.forward()
    assert visitor.tour.place == (1, 0)
    assert visitor.card.see.text() == "It is 7."
    visitor.tour.forward()
    assert visitor.tour.place is None


def test_after_a_guess_all_of_the_answer_is_seen(visitor: Visitor) -> None:
    visitor.facts.know(SEVEN)
    visitor.tour.go(1, 0)
    visitor.settle()
    QTest.keyClicks(visitor.card.guess, "5")
    QTest.keyClick(visitor.card.guess, Qt.Key.Key_Return)
    visitor.settle()
    assert visitor.card.size() == visitor.card.wanted_size()


def test_what_was_done_is_answered_once_it_is_done(visitor: Visitor) -> None:
    visitor.facts.know(SEVEN)
    visitor.tour.go(0, 1)
    visitor.acts.done.emit("did")
    assert visitor.card.done.isHidden()
    visitor.acts.done.emit("also")
    assert visitor.card.done.text() == "✓ Done with 7. Done."
    visitor.tour.go(0, 1)
    assert visitor.card.done.isHidden()


def test_in_a_text_other_things_are_tried(visitor: Visitor) -> None:
    visitor.tour.go(1, 0)
    visitor.tour.forward()
    assert visitor.card.try_.text() == "Try: Send a message."
    visitor.room.is_text = True
    visitor.tour.follow()
    assert visitor.card.try_.text() == "Try: Press “Continue”."
    assert visitor.acts.heard == "wrote"
    visitor.acts.done.emit("wrote")
    assert visitor.card.done.text() == "✓ Written."


def test_the_card_stands_beside_its_widget_which_has_a_line_around_it(visitor: Visitor) -> None:
    visitor.tour.start()
    assert visitor.is_inside()
    aim = visitor.seen(visitor.window.target)
    assert not visitor.card.geometry().intersects(aim)
    assert visitor.tour.outline.isVisible()
    assert visitor.tour.outline.geometry().contains(aim)
    with visitor.qtbot.waitSignal(visitor.window.target.clicked):
        child = visitor.window.childAt(aim.center())
        assert child is visitor.window.target
        QTest.mouseClick(child, Qt.MouseButton.LeftButton)


def test_it_hides_nothing_of_the_panel_where_there_is_room(qtbot: QtBot, theme: Theme) -> None:
    step = Step("one", Spot("target", panel="Tokens"), ("You see it.",), act="did")
    visitor = Visitor(qtbot, theme, (Chapter("First", (step,)),))
    visitor.window.area.setObjectName("panel_tokens")
    visitor.window.target.setFixedWidth(60)
    visitor.window.target.parentWidget().layout().setAlignment(  # type: ignore[union-attr]
        visitor.window.target, Qt.AlignmentFlag.AlignRight
    )
    visitor.tour.start()
    assert visitor.is_inside()
    assert not visitor.card.geometry().intersects(visitor.seen(visitor.window.area))
    visitor.window.resize(700, 600)
    visitor.window.area.setGeometry(100, 50, 580, 400)
    assert visitor.is_inside()
    assert not visitor.card.geometry().intersects(visitor.seen(visitor.window.target))


def test_what_is_scrolled_away_is_brought_into_view(visitor: Visitor) -> None:
    visitor.tour.go(0, 1)
    visitor.settle()
    assert not visitor.window.other.visibleRegion().isEmpty()
    assert visitor.tour.outline.geometry().contains(visitor.seen(visitor.window.other))


def test_whoever_scrolls_away_is_not_pulled_back(visitor: Visitor) -> None:
    visitor.tour.go(0, 1)
    visitor.settle()
    bar = visitor.window.area.verticalScrollBar()
    QTest.mousePress(bar, Qt.MouseButton.LeftButton)
    QTest.mouseRelease(bar, Qt.MouseButton.LeftButton)
    bar.setValue(0)
    assert visitor.is_inside()
    assert bar.value() == 0
    assert not visitor.tour.outline.isVisible()
    visitor.tour.show_again()
    visitor.settle()
    assert bar.value() > 0
    assert visitor.window.other.hasFocus()


def test_what_is_gone_leaves_the_card_in_the_corner_and_comes_back(visitor: Visitor) -> None:
    visitor.tour.start()
    visitor.window.area.hide()
    assert visitor.is_inside()
    assert visitor.card.lack.text() == GONE
    assert visitor.room.corner().contains(visitor.card.geometry())
    assert not visitor.tour.outline.isVisible()
    QTest.mouseClick(visitor.card.again_button, Qt.MouseButton.LeftButton)
    assert visitor.is_inside()
    assert visitor.card.lack.isHidden()
    assert visitor.window.target.hasFocus()
    visitor.window.area.hide()
    visitor.settle()
    visitor.window.area.show()
    visitor.settle()
    assert visitor.card.lack.isHidden()


def test_what_is_built_anew_is_found_again(visitor: Visitor) -> None:
    visitor.tour.start()
    visitor.settle()
    old = visitor.window.target
    holder = old.parentWidget()
    assert holder is not None
    old.setParent(None)
    old.deleteLater()
    new = visitor.window.target = QPushButton("target", holder)
    new.setObjectName("target")
    new.setFixedSize(300, 60)
    holder.layout().addWidget(new)  # type: ignore[union-attr]
    visitor.settle()
    visitor.tour.show_again()
    assert visitor.is_inside()
    assert visitor.tour.outline.geometry().contains(visitor.seen(new))


def test_why_nothing_is_live_is_said(visitor: Visitor) -> None:
    visitor.tour.start()
    visitor.room.without = "No model is loaded."
    visitor.tour.follow()
    visitor.settle()
    assert visitor.card.lack.text() == "No model is loaded."
    visitor.window.area.hide()
    visitor.settle()
    assert visitor.card.lack.text() == "No model is loaded."
    visitor.room.without = ""
    visitor.tour.follow()
    assert visitor.card.lack.text() == GONE


@pytest.mark.parametrize("zoom", [80, 100, 200, 300])
@pytest.mark.parametrize("size", [(900, 600), (480, 400), (1600, 1000)])
def test_it_stays_inside_the_window(
    visitor: Visitor, theme: Theme, zoom: int, size: tuple[int, int]
) -> None:
    visitor.tour.start()
    visitor.facts.know(SEVEN)
    visitor.window.setMinimumSize(1, 1)
    visitor.window.resize(*size)
    theme.set_zoom(zoom)
    assert visitor.is_inside()
    room = size[1] - 2 * theme.px(8)
    wanted = visitor.card.wanted_size(visitor.card.width()).height()
    assert visitor.card.height() >= min(visitor.card.least_height(), wanted, room)
    visitor.window.area.setGeometry(0, 0, *size)
    assert visitor.is_inside()


def test_without_room_beside_it_a_low_card_covers_less(visitor: Visitor, theme: Theme) -> None:
    window = visitor.window
    visitor.tour.start()
    theme.set_zoom(200)
    visitor.settle()
    flat = visitor.card.wanted_size(900 - 2 * theme.px(8)).height()
    height = 600 - flat - theme.px(30)
    window.area.setGeometry(0, 0, 900, height)
    window.target.setFixedSize(860, height - 20)
    window.target.parentWidget().adjustSize()  # type: ignore[union-attr]
    assert visitor.is_inside()
    assert not visitor.card.geometry().intersects(visitor.seen(window.target))


def test_escape_leaves_and_the_keyboard_is_where_it_was(visitor: Visitor) -> None:
    visitor.tour.start()
    QTest.keyClick(visitor.card.next_button, Qt.Key.Key_Escape)
    assert visitor.tour.place is None
    assert visitor.room.place == "1/one"
    assert visitor.window.field.hasFocus()
    assert visitor.acts.heard == ""
    assert visitor.facts.wanted == frozenset()


def test_escape_leaves_from_elsewhere_where_nothing_else_wants_it(visitor: Visitor) -> None:
    visitor.tour.start()
    visitor.window.other.setFocus()
    QTest.keyClick(visitor.window.other, Qt.Key.Key_Escape)
    assert visitor.tour.place is None
    assert visitor.window.other.hasFocus(), "who works elsewhere stays there"


def test_where_the_keyboard_was_may_be_gone(visitor: Visitor) -> None:
    box = QLineEdit(visitor.window)
    box.show()
    box.setFocus()
    visitor.tour.start()
    box.deleteLater()
    box.hide()
    QTest.keyClick(visitor.card.next_button, Qt.Key.Key_Escape)
    assert visitor.window.field.hasFocus()


def test_the_chat_is_brought_where_a_step_is_about_it(visitor: Visitor) -> None:
    visitor.tour.start()
    assert visitor.columns.shown == 1
