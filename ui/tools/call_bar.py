"""The bar above the composer in which a call of a tool is answered: run, changed, skipped.

For `GUARD_MS` after another call has come nothing is taken: a key or a click may have been meant
for what stood there before.
"""

from __future__ import annotations

import time
from typing import Final

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.chat.tools.turns import Asked
from ui.look.theme import Theme
from ui.shell.sizes import STATUS_FROM_PX
from ui.tools.arguments_form import ArgumentsForm
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea

GUARD_MS: Final = 600
SHARE_OF_HEIGHT: Final = 0.34
LEAST_PX: Final = 52


class CallBar(QWidget):
    """`run_wanted`: whether the tool may run always, and whether the rest of the calls may run."""

    run_wanted = Signal(bool, bool)
    skip_wanted = Signal(bool)
    go_on_wanted = Signal()
    stop_wanted = Signal()
    arguments_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._key: tuple[str, str, str, str] | None = None
        self._guarded_until = 0.0
        self._chat_height = 0
        self.setObjectName("call_bar")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.card = QFrame(self)
        self.card.setProperty("plane", "card")
        self.title = plain_label("", self.card, "strong", name="call_title", wraps=True)
        self.figure = plain_label("", self.card, "small", name="call_figure")
        self.about = plain_label("", self.card, "small", name="call_about", wraps=True)
        self.note = plain_label("", self.card, "caution", name="call_note", wraps=True)
        self.trouble = plain_label("", self.card, "refusal", name="call_trouble", wraps=True)
        self.form = ArgumentsForm(theme)
        self.area = SteadyArea(self.card)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setWidget(self.form)
        self.form.setAutoFillBackground(False)
        self.area.viewport().setAutoFillBackground(False)
        self._acts = QWidget(self.card)
        self.run_button = self._button("Run once", "run_call_button", "primary")
        self.rest_button = self._button("Run all", "run_rest_button", "compact")
        self.always_button = self._button("Always run", "always_call_button", "compact")
        self.skip_button = self._button("Skip", "skip_call_button", "compact")
        self.never_button = self._button("Never run", "never_call_button", "compact")
        self.go_on_button = self._button("Continue", "go_on_calls_button", "primary")
        self.stop_button = self._button("Stop", "stop_call_button", "stop")
        for button, hint in (
            (self.run_button, "Run this call"),
            (self.always_button, "Run it, and don't ask again for this tool"),
            (self.rest_button, "Run this and the other calls of this reply"),
            (self.skip_button, "Don't run it; the model is told"),
            (self.never_button, "Don't run it, and don't offer this tool again"),
            (self.stop_button, "Stop the call (Esc)"),
        ):
            button.setToolTip(hint)
            button.setAccessibleDescription(hint)
        self._build()
        self.run_button.clicked.connect(lambda: self._run())
        self.always_button.clicked.connect(lambda: self._run(always=True))
        self.rest_button.clicked.connect(lambda: self._run(rest=True))
        self.skip_button.clicked.connect(lambda: self._skip())
        self.never_button.clicked.connect(lambda: self._skip(never=True))
        self.go_on_button.clicked.connect(self._go_on)
        self.stop_button.clicked.connect(self.stop_wanted)
        self.form.changed.connect(self.arguments_changed)
        self.form.changed.connect(self._fit)
        theme.changed.connect(self._fit)
        theme.space(self._inner, 6, margins=(12, 10))
        theme.space(self._head, 8)
        theme.space(self._row, 6)

    def _button(self, text: str, name: str, kind: str = "") -> QPushButton:
        button = push_button(text, self.card, name, kind=kind)
        button.setAutoDefault(False)
        return button

    def _build(self) -> None:
        self._head = QHBoxLayout()
        self._head.addWidget(self.title, 1)
        self._head.addWidget(self.figure)
        self._row = FlowLayout(self._acts)
        for button in self.buttons():
            self._row.addWidget(button)
        self._inner = QVBoxLayout(self.card)
        self._inner.addLayout(self._head)
        for widget in (self.about, self.note, self.area, self.trouble):
            self._inner.addWidget(widget)
        self._inner.addWidget(self._acts)
        self._outer = QVBoxLayout(self)
        self._outer.addWidget(self.card)

    def buttons(self) -> list[QPushButton]:
        return [
            self.run_button,
            self.always_button,
            self.rest_button,
            self.skip_button,
            self.never_button,
            self.go_on_button,
            self.stop_button,
        ]

    def stops(self) -> list[QWidget]:
        """What Tab goes through, in this order."""
        return [*self.form.stops(), *self.buttons()]

    def first_stop(self) -> QWidget:
        """Where the keyboard lands that is sent here."""
        return next((each for each in self.buttons() if not each.isHidden()), self.stop_button)

    def set_place(self, left: int, right: int, chat_height: int) -> None:
        """It stands under the transcript's column and leaves that the most of the height."""
        self._outer.setContentsMargins(left, self._theme.px(4), right, self._theme.px(4))
        if chat_height != self._chat_height:
            self._chat_height = chat_height
            self._fit()

    # --- showing --------------------------------------------------------------------------------

    def show_asked(self, asked: Asked) -> bool:
        """What is asked now. Whether that is another call than before, or of another tool: a
        server may describe its own anew while a person reads."""
        call_id = asked.call.id if asked.call is not None else ""
        tool = asked.offered.tool.fingerprint if asked.offered is not None else ""
        key = (asked.reply.id, call_id, tool, "asking" if asked.phase == "asking" else "")
        is_new = key != self._key
        self._key = key
        if is_new:
            self._guarded_until = time.monotonic() + GUARD_MS / 1000
            if asked.call is not None:
                schema = asked.offered.tool.schema if asked.offered is not None else "{}"
                self.form.show_call(schema, asked.arguments)
        self._say(asked)
        is_asking, is_running = asked.phase == "asking", asked.phase in ("running", "saving")
        is_known = asked.offered is not None
        self.area.setVisible(asked.call is not None)
        self.form.setEnabled(is_asking)
        for button, is_there in (
            (self.run_button, is_asking and is_known),
            (self.always_button, is_asking and is_known),
            (self.rest_button, is_asking and is_known and asked.number < asked.n_calls),
            (self.skip_button, is_asking),
            (self.never_button, is_asking and is_known),
            (self.go_on_button, asked.phase in ("limit", "over")),
            (self.stop_button, is_running),
        ):
            button.setVisible(is_there)
        left = asked.n_calls - asked.number + 1
        self.rest_button.setText(f"Run all {left}")
        self._fit()
        if is_new:
            self._announce()
        return is_new

    def _say(self, asked: Asked) -> None:
        name = asked.call.name if asked.call is not None else ""
        shown = name if len(name) <= 60 else f"{name[:59]}…"
        match asked.phase:
            case "asking":
                title = f"Run “{shown}”?"
            case "running":
                title = f"Running “{shown}”…"
            case "saving":
                title = f"Saving the result of “{shown}”…"
            case "limit":
                n_rounds = asked.n_rounds
                title = f"The model has called tools {n_rounds} times in a row. Let it go on?"
            case _:
                title = "The model hasn't answered the tool's result yet."
        self.title.setText(title)
        parts = []
        if asked.n_calls > 1:
            parts.append(f"{asked.number} of {asked.n_calls}")
        self.figure.setText(" · ".join(parts))
        self.figure.setVisible(bool(parts))
        about = ""
        if asked.offered is not None:
            described = asked.offered.tool.description.split("\n", 1)[0][:200]
            about = " · ".join(each for each in (asked.offered.server.name, described) if each)
        if asked.phase == "running" and asked.progress:
            about = asked.progress
        self.about.setText(about)
        self._set(self.note, asked.note)
        self.show_trouble(asked.trouble if asked.phase == "asking" else "")
        self.setAccessibleName(title)

    def show_trouble(self, sentence: str) -> None:
        """Why it cannot run as it stands."""
        self._set(self.trouble, sentence)
        self._fit()

    @staticmethod
    def _set(label: QWidget, text: str) -> None:
        label.setText(text)  # type: ignore[attr-defined]
        label.setVisible(bool(text))

    def _announce(self) -> None:
        """A screen reader says it, wherever its keyboard is."""
        words = ". ".join(
            each for each in (self.title.text(), self.about.text(), self.trouble.text()) if each
        )
        self.setAccessibleDescription(words)
        event = QAccessibleEvent(self, QAccessible.Event.Alert)
        QAccessible.updateAccessibility(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """The arguments get what height is left; the rest of them is scrolled to."""
        is_short = self._chat_height < self._theme.px(STATUS_FROM_PX)
        self.about.setVisible(bool(self.about.text()) and not is_short)
        self._fit_now()
        QTimer.singleShot(0, self, self._fit_now)  # a new field knows its height only then

    def _fit_now(self) -> None:
        px = self._theme.px
        most = max(px(LEAST_PX), int(self._chat_height * SHARE_OF_HEIGHT))
        if self._chat_height < px(STATUS_FROM_PX):
            most = px(LEAST_PX)
        self.area.setFixedHeight(min(self.form.sizeHint().height() + px(4), most))
        # Buttons that go on in another line need its height, which a fixed bar is not asked for.
        self._acts.setFixedHeight(self._row.heightForWidth(max(1, self._acts.width())))

    # --- answers --------------------------------------------------------------------------------

    @property
    def is_guarded(self) -> bool:
        """Whether another call has come just now."""
        return time.monotonic() < self._guarded_until

    def _run(self, *, always: bool = False, rest: bool = False) -> None:
        if not self.is_guarded:
            self.run_wanted.emit(always, rest)

    def _skip(self, *, never: bool = False) -> None:
        if not self.is_guarded:
            self.skip_wanted.emit(never)

    def _go_on(self) -> None:
        if not self.is_guarded:
            self.go_on_wanted.emit()
