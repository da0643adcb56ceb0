"""Every step of the tour, walked in the real window by keys and clicks: its widget is there, what
it asks for can be done as it says and is recognised, and whatever happens to the window at any step
leaves a card that is inside of it and true."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import tiny_llama
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QSlider,
    QTableView,
    QWidget,
)

from app.chat.tour.chapters import Step, chapters
from models.records import ConversationKind
from ui.section.inside.layers.head_grid import HeadGrid
from ui.section.inside.layers.who_card import WhoCard, WroteRows
from ui.section.inside.machine.drawing import MachineDrawing
from ui.section.inside.rows import PaintedRows
from ui.section.prompt.text import PromptText
from ui.section.time.line import TimeLine
from ui.tour.tour import GONE, Tour
from ui.tour.tour_acts import NO_MODEL

LEFT = Qt.MouseButton.LeftButton
Key = Qt.Key
SIZE = (1440, 900)
SMALL = (900, 600)
SHAPE = {
    "@": "CacheShape",
    "layers": [
        {
            "@": "CacheLayers",
            "n_layers": 4,
            "k_width": 192,
            "v_width": 192,
            "k_bytes": 384,
            "v_bytes": 384,
            "n_head_kv": 3,
        }
    ],
}
TOKEN: dict[str, Any] = {
    "text": " Paris",
    "probability": 0.75,
    "alternatives": [[" Paris", 0.75], [" Lyon", 0.2]],
    "stages": [["top-k", 40, 0.75], ["temperature", 2, 0.8], ["dist", 2, 0.8]],
    "removed_by": [255, 255],
    "uniform": 0.7,
}
WORDS = [
    {**TOKEN, "text": text, "alternatives": [[text, 0.75], [" Lyon", 0.2]]}
    for text in (",", " the", " city", " of", " light")
]
SCRIPT: dict[str, Any] = {
    "load": {
        "ms": 5,
        "loaded": {
            "kv_bytes_per_token": 3072,
            "cache": SHAPE,
            "n_ctx": 4096,
            "n_slots": 4,
            "n_layer": 4,
        },
    },
    "replies": [{"tokens": [TOKEN, *WORDS], "prefill": {"ms": 2}}],
    "measured": {"step_ms": [12.5], "replay_ms": [640], "ms": 5},
}
PLACES = [(at, n) for at, chapter in enumerate(chapters()) for n in range(len(chapter.steps))]


class Walker:
    """Somebody who takes the tour."""

    def __init__(self, person: Any) -> None:
        self.person = person
        self.window = person.window
        self.desk = person.app.desk
        self.window.resize(*SIZE)
        person.qtbot.waitUntil(lambda: self.desk.loader.state.state == "ready", timeout=60_000)
        self.is_scripted = self.desk.loader.path.endswith("tiny.gguf")
        self.doing: dict[str, Callable[[Step], None]] = {
            "prompt_token_chosen": self._click_word,
            "merges_replayed": self._replay,
            "sum_asked": lambda _: self._press("inside_nearest_example"),
            "words_swapped": lambda _: self._press("inside_swap_button"),
            "sink_hidden": lambda _: self._press("inside_attention_sink"),
            "head_chosen": self._click_head,
            "layer_chosen": self._click_layer,
            "part_tested": self._test_head,
            "temperature_moved": self._move_temperature,
            "token_held": self._hold,
            "cache_measured": lambda _: self._press("measure_button"),
            "what_if_asked": lambda _: self._press("what_if_button"),
            "several_begun": self._ask_several,
            "text_rewritten": lambda _: self._press("text_retry_button"),
            "flash_compared": lambda _: self._press("inside_machine_flash"),
            "block_opened": self._click_block,
            "reply_rerun": lambda _: self._choose_of_message(1, "Rerun exactly"),
            "token_view_on": lambda _: self._press("token_view_toggle"),
        }

    # --- what is there --------------------------------------------------------------------------

    @property
    def tour(self) -> Tour:
        tour: Tour = self.window.tour_acts.tour()
        return tour

    @property
    def card(self) -> Any:
        return self.tour.card

    def wait(self, is_so: Callable[[], Any]) -> Any:
        return self.person.wait(is_so)

    def settle(self) -> None:
        for _ in range(4):
            QApplication.processEvents()

    def find(self, kind: type[Any], name: str) -> Any:
        """The one on screen."""
        found = [each for each in self.window.findChildren(kind, name) if each.isVisible()]
        assert len(found) == 1, (name, found)
        return found[0]

    def check_inside(self) -> None:
        """The card is inside of the window, and its buttons are inside of the card."""
        self.settle()
        card = self.card
        assert card.isVisible()
        assert self.window.rect().contains(card.geometry()), card.geometry()
        for button in (card.next_button, card.back_button, card.close_button):
            place = button.geometry().translated(card.pos())
            assert card.geometry().contains(place), (button.objectName(), place)

    # --- acts -----------------------------------------------------------------------------------

    def click(self, widget: QWidget, at: QPoint | None = None) -> None:
        """As the mouse would: there it is what lies on top."""
        place = widget.rect().center() if at is None else at
        top = self.window.childAt(widget.mapTo(self.window, place))
        assert top is not None
        assert top is widget or widget.isAncestorOf(top), (widget.objectName(), top)
        QTest.mouseClick(widget, LEFT, pos=place)

    def _press(self, name: str) -> None:
        button = self.find(QWidget, name)
        self.wait(button.isEnabled)
        self.wait(lambda: self.is_reached(button))
        self.click(button)

    def is_reached(self, widget: QWidget) -> bool:
        """Scrolls to it where it isn't in view."""
        from ui.tour.spots import bring_into_view

        bring_into_view(widget, 8)
        self.settle()
        middle = widget.mapTo(self.window, widget.rect().center())
        return bool(widget.isVisible() and self.tour._seen(widget).contains(middle))

    def _click_word(self, step: Step) -> None:
        text: PromptText = self.find(PromptText, step.at.widget)
        self.wait(lambda: text.is_whole and text.rects(1))
        self.click(text.viewport(), text.rects(1)[0].center().toPoint())

    def _replay(self, _step: Step) -> None:
        field = self.find(QPlainTextEdit, "tokenise_text")
        field.setFocus()
        field.selectAll()
        QTest.keyClicks(field, "unbelievable Paris")
        if self.is_scripted:  # it has no merges, and the widget says so
            self.wait(lambda: self.find(QLabel, "merge_sentence").text())
            self.tour._on_act("merges_replayed")
            return
        slider = self.window.findChild(QSlider, "merge_slider")
        self.wait(lambda: slider.isVisible() and slider.value() > 8)
        slider.setFocus()
        QTest.keyClick(slider, Key.Key_Home)

    def _click_token(self, step: Step) -> None:
        """By the step's own widget, where it has tokens; else by the buttons of the head."""
        if step.at.widget == "token_table":
            table = self.find(QTableView, "token_table")
            row = table.visualRect(table.model().index(1, 1)).center()
            self.click(table.viewport(), row)
        elif step.at.widget == "time_line":
            line = self.find(TimeLine, "time_line")
            self.wait(lambda: len(line.bars) > 2)
            current = self.window.section_acts.looking().index
            place = line.rect_of_token(2 if current != 2 else 1).center().toPoint()
            self.click(line, place)
        elif step.at.widget == "inside_attention_text":
            text = self.find(PromptText, step.at.widget)
            self.wait(lambda: text.is_whole and text.rects(1))
            self.click(text.viewport(), text.rects(1)[0].center().toPoint())
        else:
            looking = self.window.section_acts.looking()
            last = looking.index == len(looking.traces) - 1
            self._press("section_token_previous" if last else "section_token_next")

    def _click_head(self, _step: Step) -> None:
        grid = self.find(HeadGrid, "inside_attention_grid")
        self.wait(lambda: grid.n_layer)
        self.wait(lambda: self.is_reached(grid))
        self.click(grid, grid._cell(1, 0).center())

    def _click_layer(self, step: Step) -> None:
        rows: PaintedRows = self.find(PaintedRows, step.at.widget)
        self.wait(lambda: rows.n_rows > 2 and not rows.is_pending)
        chosen = 1 if rows.chosen != 1 else 2
        self.click(rows, rows.rect_of(chosen).center().toPoint())

    def _test_head(self, _step: Step) -> None:
        rows = self.find(WroteRows, "inside_wrote_rows")
        self.wait(lambda: rows.n_rows)
        parts = [words for words, _ in rows.entries]
        at = next(n for n, words in enumerate(parts) if words.startswith(("head", "FFN", "feed")))
        self.click(rows, rows.rect_of(at).center().toPoint())
        button = self.window.findChild(WhoCard).test_button
        self.wait(button.isVisible)
        assert button.text().startswith("Test without ")
        self._press("inside_wrote_test")

    def _move_temperature(self, _step: Step) -> None:
        card = self.find(QWidget, "live_card")
        slider = card.findChild(QSlider, "live_slider_temperature")
        assert slider is not None
        slider.setFocus()
        QTest.keyClick(slider, Key.Key_Left)

    def _hold(self, step: Step) -> None:
        self._press("step_button")
        if "Continue" in step.try_:
            self._press("continue_button")
        else:
            composer = self.find(QWidget, "composer")
            composer.setFocus()
            QTest.keyClicks(composer, "Go on")
            QTest.keyClick(composer, Key.Key_Return)

    def run_on(self) -> None:
        """Step off again, and the reply to its end."""
        if self.desk.step.is_on:
            self._press("step_button")
        self.person.qtbot.waitUntil(lambda: not self.desk.replies.is_generating, timeout=60_000)
        self.settle()

    def _choose_of_message(self, from_end: int, label: str) -> None:
        transcript = self.window.chat.transcript
        self.wait(lambda: not self.desk.replies.is_generating)
        index = len(transcript.rows) - from_end
        menu: QMenu = transcript.pointer.open_menu(
            index, transcript.mapToGlobal(transcript.rect().center())
        )
        entry = next(a for a in menu.actions() if a.text().split("\t")[0] == label)
        entry.trigger()
        menu.close()

    def _ask_several(self, _step: Step) -> None:
        self._choose_of_message(2, "Generate several replies…")
        dialog = self.wait(lambda: self.window.findChild(QDialog, "several_answers_dialog"))
        button = dialog.findChild(QPushButton, "answers_ask")
        QTest.mouseClick(button, LEFT)

    def _click_block(self, _step: Step) -> None:
        from ui.section.inside.machine.drawing import _key_of

        drawing = self.find(MachineDrawing, "inside_machine_drawing")
        self.wait(lambda: drawing.rows)
        key = next(key for row in drawing.rows[1:] if (key := _key_of(row)))
        self.click(drawing, (drawing.rect_of(key).topLeft() + QPointF(60, 6)).toPoint())

    # --- a step ---------------------------------------------------------------------------------

    def look(self, step: Step) -> QWidget:
        """Its very widget is on screen, or what leads to it, and the card beside that."""
        widget = self.wait(lambda: self.tour._spots.live(step.at))
        self.wait(lambda: self.is_reached(widget) or not self.tour._seen(widget).isEmpty())
        if step.at.panel == "Inside":  # what is still shown of the token before goes
            view = self.window.section_acts.section().panel().view
            self.wait(lambda: not view.is_waiting)
        self.check_inside()
        assert self.card.lack.isHidden(), self.card.lack.text()
        assert self.tour.outline.isVisible()
        return widget

    def reveal(self) -> None:
        if self.card.is_asking:
            QTest.keyClick(self.card.next_button, Key.Key_Return)
        assert self.card.see.text()

    def try_it(self, step: Step) -> None:
        """As the card says; then it is answered."""
        (self._click_token if step.act == "token_chosen" else self.doing[step.act])(step)
        self.wait(lambda: self.card.done.isVisible() or self.card.done.text())
        if step.act == "token_held":
            self.run_on()
        if step.act in ("several_begun", "reply_rerun", "text_rewritten"):
            self.person.qtbot.waitUntil(lambda: not self.desk.replies.is_generating, timeout=60_000)
        self.check_inside()
        if step.act == "several_begun":
            self._leave_comparison()

    def _leave_comparison(self) -> None:
        """The chat is shown again."""
        QTest.keyClick(self.window.chat.body.currentWidget(), Key.Key_Escape)
        self.settle()

    def walk(self, at: Callable[[Step], None]) -> None:
        """From the first step to the last, by Enter."""
        for number, place in enumerate(PLACES):
            assert self.tour.place == place
            step = self.tour.step
            assert step is not None
            try:
                self.reveal()
                self.look(step)
                at(step)
            except Exception as error:
                error.add_note(f"at step {place[0] + 1}/{step.name}")
                raise
            if number < len(PLACES) - 1:
                self.card.next_button.setFocus()
                QTest.keyClick(self.card.next_button, Key.Key_Return)
                self.settle()


@pytest.fixture
def scripted(open_window: Any, tmp_path: Path) -> Any:
    """The scripted engine beside a small file, which has a header that can be read."""
    person = open_window(SCRIPT)
    person.wait_ready()
    path = tmp_path / "tiny.gguf"
    tiny_llama(path)
    person.app.desk.loader.load(str(path))
    person.wait(lambda: person.app.desk.loader.path == str(path))
    person.wait_ready()
    return person


def by_chat(person: Any) -> Walker:
    """With a chat and its reply."""
    walker = Walker(person)
    person.send("What is the capital of France?")
    person.wait_ended()
    QTest.keyClick(person.find(QWidget, "composer"), Key.Key_F1)
    walker.wait(lambda: walker.window.tour_acts._tour is not None)
    return walker


def by_text(person: Any) -> Walker:
    """With nothing: the sentence that is offered is taken."""
    walker = Walker(person)
    button = walker.find(QPushButton, "empty_tour_button")
    walker.click(button)
    field = walker.find(QWidget, "tour_sentence")
    assert field.hasFocus()
    QTest.keyClick(field, Key.Key_Return)
    walker.wait(lambda: walker.window.tour_acts._tour is not None)
    assert walker.desk.shelf.open.kind is ConversationKind.TEXT
    person.qtbot.waitUntil(
        lambda: not walker.desk.replies.is_generating and len(walker.desk.shelf.path) > 1,
        timeout=60_000,
    )
    return walker


# --- everything can be done ----------------------------------------------------------------------


@pytest.mark.parametrize("begin", [by_chat, pytest.param(by_text, marks=pytest.mark.soak)])
def test_every_step_can_be_done_as_it_says(scripted: Any, begin: Callable[[Any], Walker]) -> None:
    walker = begin(scripted)
    walker.walk(walker.try_it)
    QTest.keyClick(walker.card.next_button, Key.Key_Return)
    assert walker.tour.place is None
    assert walker.desk.settings.now.tour_at == "1/template"


@pytest.mark.soak
@pytest.mark.weights
@pytest.mark.parametrize("file", ["starter_gguf", "gemma_gguf"])
def test_every_step_can_be_done_on_real_weights(
    open_window: Any,
    file: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ui.tour.tour_acts.MOST_TOKENS", 6)
    path: Path = request.getfixturevalue(file)
    person = open_window(None, "--gguf", str(path))
    walker = by_text(person)
    walker.walk(walker.try_it)


# --- whatever happens ----------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("percent", [100, 200, 300])
def test_whatever_happens_at_a_step_leaves_a_card_that_is_true(scripted: Any, percent: int) -> None:
    """At this zoom; what zooms at a step itself stands below."""
    walker = by_chat(scripted)

    def trouble(step: Step) -> None:
        walker.window.resize(*SMALL)
        walker.check_inside()
        walker.window.resize(*SIZE)
        walker.check_inside()
        leave_and_resume(walker)
        walker.reveal()
        if step.at.panel:
            close_its_panel(walker, step)

    walker.window._theme.set_zoom(percent)
    walker.walk(trouble)


@pytest.mark.parametrize(
    "chapter",
    [
        pytest.param(at, marks=[] if chapter.steps[0].name == "stream" else [pytest.mark.soak])
        for at, chapter in enumerate(chapters())
    ],
)
def test_a_step_outlives_zooms_its_model_and_its_chat(scripted: Any, chapter: int) -> None:
    walker = by_chat(scripted)
    window, desk = walker.window, walker.desk
    chat, path = desk.shelf.open.id, desk.loader.path
    walker.tour.go(chapter, 0)
    walker.reveal()
    step = walker.tour.step
    assert step is not None
    walker.look(step)
    for percent in (200, 300, 100):
        window._theme.set_zoom(percent)
        walker.check_inside()
    desk.loader.unload()
    walker.wait(lambda: walker.card.lack.text() == NO_MODEL)
    walker.check_inside()
    desk.loader.load(path)
    walker.wait(lambda: walker.card.lack.isHidden() and desk.loader.state.state == "ready")
    desk.shelf.open_new()
    walker.check_inside()
    assert "{" not in walker.card.words()
    desk.shelf.open_stored(chat)
    walker.wait(lambda: desk.shelf.open.id == chat and desk.shelf.path)
    looking = window.section_acts.looking()
    walker.wait(lambda: len(looking.traces))
    walker.card.again_button.click()
    walker.look(step)
    assert looking.index is not None


def close_its_panel(walker: Walker, step: Step) -> None:
    walker.window.section_acts.show(False)
    walker.check_inside()
    assert walker.card.lack.text() == GONE
    assert not walker.tour.outline.isVisible()
    walker.click(walker.card.again_button)
    walker.look(step)


def leave_and_resume(walker: Walker) -> None:
    place = walker.tour.place
    walker.card.next_button.setFocus()
    QTest.keyClick(walker.card.next_button, Key.Key_Escape)
    assert walker.tour.place is None
    assert not walker.card.isVisible()
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, Key.Key_F1)
    walker.wait(lambda: walker.tour.place == place)


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_in_a_small_window_the_card_covers_nothing_where_there_is_room(
    scripted: Any, is_whole: bool
) -> None:
    """At the first step of each chapter, or at all."""
    walker = by_chat(scripted)
    walker.window.resize(*SMALL)

    def is_beside(step: Step) -> None:
        walker.settle()
        aim = walker.tour._seen(walker.tour._spots.find(step.at))
        covered = walker.card.geometry() & aim
        assert covered.isEmpty(), (aim, walker.card.geometry())

    if is_whole:
        walker.walk(is_beside)
        return
    for chapter in range(len(chapters())):
        walker.tour.go(chapter, 0)
        walker.reveal()
        step = walker.tour.step
        assert step is not None
        walker.look(step)
        is_beside(step)


# --- the ways to it ------------------------------------------------------------------------------


def test_any_chapter_is_reached_by_name_and_from_the_panel_that_it_is_about(
    scripted: Any,
) -> None:
    walker = by_chat(scripted)
    window, actions = walker.window, walker.window.action_registry
    for number in range(1, len(chapters()) + 1):
        actions.run(f"tour_{number}")
        assert walker.tour.place == (number - 1, 0)
        walker.check_inside()
    actions.run("tour_again")
    assert walker.tour.place == (0, 0)
    walker.tour.leave()
    section = window.section_acts.section()
    for panel, numbers in (("Sampling", (5, 7)), ("Cache", (6,)), ("Time", (6,)), ("Tokens", (1,))):
        window.section_acts.go_to(panel)
        walker.click(section.help_button)
        menu = section.help_button.findChild(QMenu, "section_help_menu")
        titles = [f"Tour: {chapters()[number - 1].title}" for number in numbers]
        assert [entry.text() for entry in menu.actions()][: len(titles)] == titles
        menu.actions()[0].trigger()
        menu.setObjectName("")
        menu.close()
        assert walker.tour.place == (numbers[0] - 1, 0)
