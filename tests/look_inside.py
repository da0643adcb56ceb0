"""Makes the pictures of what is seen inside a reply: `docs/inside/*.png`, light and dark, at 100 %
(the window) and 200 % (the panel alone).

Run by hand, from the repository's root, after a change that is seen:

    .venv/bin/python tests/look_inside.py [SCENE …]

The included weights write, at a fixed seed, a text that begins with "The capital of France is" and
one chat; the panels and their rooms are opened beside both, and the tour is taken. What is done is
what a user does: keys, clicks, actions. Times, and what is in memory, are those of the machine that
it is run on. Look at the pictures before they are committed. No test: nothing here asserts.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tour import offscreen  # noqa: E402

os.environ["QT_QPA_PLATFORM"] = offscreen()

from screenshots import scroll, settle, wait_for  # noqa: E402

if TYPE_CHECKING:
    from PySide6.QtGui import QPixmap
    from PySide6.QtWidgets import QWidget

    from main import App

OUT = ROOT / "docs" / "inside"
SIZES = {100: (1440, 900), 200: (1900, 1160)}
SMALL = {100: (900, 600)}
SETTINGS = {"seed": 7, "max_tokens": 40, "temperature": 0.8}
TEXT = "The capital of France is"
QUESTION = "What is the capital of France, and what is it known for?"
COPIED = (
    "Write six more lines like these.\n\n"
    "1. The red lamp stands on the long table.\n"
    "2. The blue lamp hangs above the short bench.\n"
    "3. The green lamp lies under the round chair.\n"
)
LOOKED_AT = b" Paris"
HEAD = (9, 1)
"""Of the matrix: one that looks at more than the first token."""
ROOMS = (
    ("Tokens", "Try a text", "tokens-try"),
    ("Tokens", "Vocabulary", "tokens-vocabulary"),
    ("Sampling", "Chain", "sampling-end"),
    ("Sampling", "What if", "sampling-what-if"),
    ("Sampling", "Grammar, limits", "sampling-rules"),
)
"""Panel, room, and the scene's name."""
STEPS = ("template", "neighbours", "heads", "lens", "settings", "phases", "lighter", "size")
"""Of the tour: one of each chapter."""
ASKING = "phases"
"""The number is guessed there; the others are shown with it."""
EXPLAINED = ("Cache", "KV cache")
"""A panel, and a term that stands in it."""


class Visit:
    """The window with the included weights, and its section."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.desk = app.desk
        self.window = app.window

    def wait(self, is_true: Callable[[], Any]) -> None:
        wait_for(self.app, lambda: bool(is_true()))

    def do(self, name: str) -> None:
        """One of the window's actions, as from the command palette."""
        self.window.action_registry.run(name)
        settle(self.app)

    def section(self) -> Any:
        return self.window.section_acts.section()

    def wait_ended(self) -> None:
        self.wait(lambda: not self.desk.replies.is_generating)
        settle(self.app)

    def around(self, *widgets: QWidget) -> QPixmap:
        """The part of the window in which they stand."""
        from PySide6.QtCore import QPoint, QRect

        part = QRect()
        for widget in widgets:
            part |= QRect(widget.mapTo(self.window, QPoint()), widget.size())
        return self.window.grab(part.adjusted(-8, -8, 8, 8) & self.window.rect())

    def show_panel(self, title: str) -> None:
        """A panel, with the token that is looked at."""
        if not self.window.columns.is_section_shown:
            self.do("toggle_section")
        self.section().show_panel(title)
        looking = self.window.section_acts.looking()
        self.wait(lambda: len(looking.traces))
        pieces = [token.piece for token in looking.traces]
        looking.select(pieces.index(LOOKED_AT) if LOOKED_AT in pieces else 0)
        settle(self.app)
        shown = self.section().panel()
        if title == "Inside":
            self.wait(lambda: shown.view.seen is not None and not shown.view.is_waiting)
            settle(self.app)

    def wait_answered(self) -> None:
        """Until nothing is asked of the engine any more."""
        settle(self.app)
        self.wait(lambda: not self.desk.questions._asked)
        settle(self.app)

    def picture(
        self,
        scene: str,
        *,
        small: Callable[[], QWidget | QPixmap],
        whole: Callable[[], QWidget] | None = None,
        to: str | QWidget = "begin",
        ready: Callable[[], None] | None = None,
        sizes: dict[int, tuple[int, int]] | None = None,
    ) -> None:
        """The window, or `whole`, at 100 %, and what `small` returns at 200 %, in both themes.
        `to`: what is scrolled into view, the "begin", the "end", or a widget. `ready`: what is
        done instead, before each of them."""
        for percent, size in (sizes or SIZES).items():
            self.desk.settings.set("zoom_percent", percent)
            self.window.resize(*size)
            for theme in ("light", "dark"):
                self.desk.settings.set("theme", theme)
                settle(self.app)
                settle(self.app)
                if ready is None:
                    scroll(self.section(), to)
                else:
                    ready()
                settle(self.app)
                taken = small() if percent == 200 else whole() if whole else self.window
                save(taken, f"{scene}-{theme}-{percent}")
        self.desk.settings.set("zoom_percent", 100)
        self.window.resize(*SIZES[100])
        settle(self.app)


def save(widget: QWidget | QPixmap, name: str) -> None:
    """With its 256 most frequent colours: a third of the bytes, and nothing to be seen of it."""
    import numpy as np
    from PySide6.QtCore import Qt
    from PySide6.QtGui import QImage, QPixmap

    pixmap = widget if isinstance(widget, QPixmap) else widget.grab()
    image = pixmap.toImage().convertToFormat(QImage.Format.Format_RGB32)
    colors, counts = np.unique(np.frombuffer(image.constBits(), np.uint32), return_counts=True)
    palette = [int(color) for color in colors[np.argsort(-counts, kind="stable")[:256]]]
    flags = Qt.ImageConversionFlag.AvoidDither | Qt.ImageConversionFlag.ThresholdDither
    indexed = image.convertToFormat(QImage.Format.Format_Indexed8, palette, flags)
    OUT.mkdir(parents=True, exist_ok=True)
    indexed.save(str(OUT / f"{name}.png"))


# --- what there is to see ------------------------------------------------------------------------


def write_text(visit: Visit) -> None:
    """A text document, typed, and continued at its end."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QWidget

    visit.do("new_text")
    page = visit.window.findChild(QWidget, "text_document")
    QTest.keyClicks(page, TEXT)
    settle(visit.app)
    QTest.keyClick(page, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    visit.wait(lambda: visit.desk.replies.is_generating or len(visit.desk.shelf.path) > 1)
    visit.wait_ended()


def hold_chat(visit: Visit) -> None:
    visit.desk.shelf.open_new()
    visit.desk.replies.send(QUESTION)
    visit.wait(lambda: visit.desk.replies.is_generating)
    visit.wait_ended()


def first_click(visit: Visit, wanted: set[str]) -> None:
    """The button above the chat and nothing else: no token is chosen yet."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QWidget

    QTest.mouseClick(visit.window.findChild(QWidget, "section_button"), Qt.MouseButton.LeftButton)
    visit.wait(lambda: len(visit.window.section_acts.looking().traces))
    settle(visit.app)
    if not wanted or "text-first-click" in wanted:
        visit.picture("text-first-click", small=visit.section)


def panels(visit: Visit, place: str, wanted: set[str]) -> None:
    """Every panel of the section, beside what is open."""
    from ui.section.kinds import KINDS

    for kind in KINDS:
        scene = f"{place}-{kind.title.lower()}"
        if not wanted or scene in wanted:
            visit.show_panel(kind.title)
            visit.picture(scene, small=visit.section)


def rooms(visit: Visit, wanted: set[str]) -> None:
    """What lies behind the first room of a panel, and below its first cards."""
    for panel, room, name in ROOMS:
        scene = f"text-{name}"
        if wanted and scene not in wanted:
            continue
        visit.show_panel(panel)
        shown = visit.section().panel()
        shown.enter(room)
        settle(visit.app)
        visit.picture(scene, small=visit.section, to="end" if name.endswith("end") else "begin")
        shown.rooms.setCurrentIndex(0)


def inside(visit: Visit, wanted: set[str]) -> None:
    """The way of a token in the chat's place, what lies below its first cards, and a small window;
    then each card alone, opened, beside the chat."""

    def is_wanted(scene: str) -> bool:
        return not wanted or scene in wanted

    if wanted and not any(scene.startswith("inside-") for scene in wanted):
        return
    visit.show_panel("Inside")
    panel = visit.section().panel()
    first = [card for card in panel.cards if card.is_open]
    if is_wanted("inside-small"):
        visit.picture("inside-small", small=visit.section, sizes=SMALL)
    for card in panel.cards:
        scene = f"inside-{card.name.replace('_', '-')}"
        if is_wanted(scene):
            for other in panel.cards:
                other.set_open(other is card)
            visit.wait_answered()
            visit.picture(scene, small=visit.section, to=card)
    if is_wanted("inside-attention-matrix"):
        matrix(visit, panel)
    for scene, to in (("inside-large", "begin"), ("inside-large-end", "end")):
        if is_wanted(scene):
            for card in panel.cards:
                card.set_open(True)
            visit.do("enlarge_section")
            visit.wait_answered()
            visit.picture(scene, small=visit.section, to=to)
            visit.do("enlarge_section")
    for card in panel.cards:
        card.set_open(card in first)


def matrix(visit: Visit, panel: Any) -> None:
    """A head of the attention card, at the reply's last token."""
    (card,) = (each for each in panel.cards if each.name == "attention")
    for other in panel.cards:
        other.set_open(other is card)
    looking = visit.window.section_acts.looking()
    before = looking.index
    looking.select(len(looking.traces) - 1)
    panel.view.choose_head(*HEAD)
    card.form.setCurrentIndex(1)
    visit.wait_answered()
    visit.picture("inside-attention-matrix", small=visit.section, to=card)
    card.form.setCurrentIndex(0)
    panel.view.choose_head(None, None)
    looking.select(before)
    visit.wait_answered()


def token_view(visit: Visit, place: str, wanted: set[str]) -> None:
    """The pieces themselves, which the settings remember."""
    scene = f"{place}-token-view"
    if wanted and scene not in wanted:
        return
    visit.show_panel("Tokens")
    visit.do("toggle_token_view")
    visit.picture(scene, small=lambda: visit.window)
    visit.do("toggle_token_view")


def step_by_step(visit: Visit, wanted: set[str]) -> None:
    """Step mode, where the token that is looked at elsewhere has been drawn and waits."""
    if wanted and "step" not in wanted:
        return
    desk = visit.desk
    visit.do("step_mode")
    desk.shelf.open_new()
    desk.replies.send(QUESTION)
    while True:
        visit.wait(lambda: desk.step.held_token is not None or not desk.replies.is_generating)
        settle(visit.app)
        if desk.step.held_token is None or desk.step.held_token.token.piece == LOOKED_AT:
            break
        desk.step.take()
    visit.picture("step", small=lambda: visit.window)
    desk.step.stop()
    visit.wait_ended()
    visit.do("step_mode")


def beams(visit: Visit, wanted: set[str]) -> None:
    """A beam search from the chat's question, in the window of its own."""
    if wanted and "beams" not in wanted:
        return
    from ui.windows.beams_window import BeamsWindow

    visit.do("beam_search")
    window = visit.window.findChild(BeamsWindow, "beams_window")
    window.length_field.setText("16")
    window.search_button.click()
    visit.wait(lambda: not visit.desk.beams.is_running)
    settle(visit.app)
    bar = window.tree.horizontalScrollBar()
    visit.picture(
        "beams", small=lambda: window, whole=lambda: window, ready=lambda: bar.setValue(0)
    )
    window.close()


def drafts(visit: Visit, wanted: set[str]) -> None:
    """A reply that says again what stands in its question, with drafts looked up there."""
    if wanted and "drafts" not in wanted:
        return
    visit.desk.shelf.open_new()
    visit.do("drafts_lookup")
    for name, value in {"max_tokens": 90, "temperature": 0.5}.items():
        visit.desk.settings.set(name, value)
    visit.desk.replies.send(COPIED)
    visit.wait(lambda: visit.desk.replies.is_generating)
    visit.wait_ended()
    visit.show_panel("Time")
    visit.do("toggle_token_view")
    card = visit.section().panel().drafts
    visit.picture("drafts", small=lambda: visit.window, to=card)
    visit.do("toggle_token_view")
    for name, value in SETTINGS.items():
        visit.desk.settings.set(name, value)


def tour_start(visit: Visit, wanted: set[str]) -> None:
    """What the tour begins with where nothing is written yet."""
    if wanted and "tour-start" not in wanted:
        return
    visit.do("tour")
    start = visit.window.tour_acts._start
    visit.picture("tour-start", small=lambda: visit.window, ready=lambda: None)
    start.leave_button.click()
    settle(visit.app)


def tour(visit: Visit, wanted: set[str]) -> None:
    """A step of each chapter, and one in a small window. The token is the one looked at before."""

    def small() -> QPixmap:
        taken = visit.window.tour_acts.tour()
        return visit.around(taken.card, taken.outline)

    for at, name in enumerate(STEPS):
        scenes = {f"tour-{name}": SIZES} | ({"tour-small": SMALL} if name == "lens" else {})
        if wanted and not wanted.intersection(scenes):
            continue
        visit.show_panel("Tokens")
        go_to_step(visit, at + 1, name)
        for scene, sizes in scenes.items():
            visit.picture(scene, small=small, ready=visit.wait_answered, sizes=sizes)
        visit.window.tour_acts.tour().leave()
        if name == "heads":
            visit.section().panel().view.choose_head(None, None)


def go_to_step(visit: Visit, chapter: int, name: str) -> None:
    """By the chapter's action, and Next."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    visit.do(f"tour_{chapter}")
    visit.wait(lambda: visit.window.tour_acts.tour().place is not None)
    tour = visit.window.tour_acts.tour()
    card = tour.card
    while tour.step.name != name:
        QTest.mouseClick(card.next_button, Qt.MouseButton.LeftButton)
        settle(visit.app)
    visit.wait(lambda: tour._spots.find(tour.step.at).objectName() == tour.step.at.widget)
    visit.wait_answered()
    if card.is_asking and name != ASKING:
        card.reveal()
    if name == "heads":
        visit.section().panel().view.choose_head(*HEAD)
    visit.wait_answered()


def glossary(visit: Visit, wanted: set[str]) -> None:
    """An entry beside its word, and the window with all of them."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QApplication, QWidget

    from ui.section.term_label import Terms

    def click_word() -> None:
        for label in visit.section().findChildren(Terms):
            for found, places in label.places() if label.isVisible() else ():
                if found.term.name == EXPLAINED[1]:
                    at = places[0].center().toPoint()
                    QTest.mouseClick(label, Qt.MouseButton.LeftButton, pos=at)
                    return

    def entry() -> QPixmap:
        return visit.around(visit.section(), visit.window.findChild(QWidget, "glossary_card"))

    def all_of_it() -> QWidget:
        (shown,) = (
            each
            for each in QApplication.topLevelWidgets()
            if each.objectName() == "glossary_window"
        )
        return shown

    if not wanted or "tour-term" in wanted:
        visit.show_panel(EXPLAINED[0])
        visit.picture("tour-term", small=entry, ready=click_word)
        visit.window.findChild(QWidget, "glossary_card").dismiss()
    if not wanted or "tour-glossary" in wanted:
        visit.do("glossary")
        visit.picture("tour-glossary", small=all_of_it, whole=all_of_it, ready=lambda: None)
        all_of_it().close()


def line(visit: Visit, wanted: set[str]) -> None:
    """Above the panels; at 100 % it stands in every other picture."""
    if not wanted or "tour-line" in wanted:
        visit.show_panel("Inside")
        sizes = {200: SIZES[200]}
        visit.picture("tour-line", small=lambda: visit.section().line, sizes=sizes)


def main() -> None:
    from main import build

    wanted = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        app = build(["--data-dir", folder, "--offline"])
        try:
            visit = Visit(app)
            app.window.resize(*SIZES[100])
            visit.wait(lambda: app.desk.loader.state.state == "ready")
            for name, value in SETTINGS.items():
                app.desk.settings.set(name, value)
            tour_start(visit, wanted)
            write_text(visit)
            first_click(visit, wanted)
            panels(visit, "text", wanted)
            rooms(visit, wanted)
            inside(visit, wanted)
            token_view(visit, "text", wanted)
            hold_chat(visit)
            panels(visit, "chat", wanted)
            token_view(visit, "chat", wanted)
            beams(visit, wanted)
            drafts(visit, wanted)
            line(visit, wanted)
            tour(visit, wanted)
            glossary(visit, wanted)
            step_by_step(visit, wanted)
        finally:
            app.close()


if __name__ == "__main__":
    main()
