"""What stands where results would: a title, a sentence with what to do, and a button for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from ui.library.hub.words import wait_text
from ui.look.theme import Theme
from ui.shell.notices import announce
from ui.widgets.centred_area import CentredArea
from ui.widgets.kit import push_button

WIDTH_PX: Final = 440
TICK_MS: Final = 250


class StatePanel(CentredArea):
    """`show_state` shows one; with `again_in_s` the button's act is done by itself when that is
    over, and the button does it at once."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._act: Callable[[], None] | None = None
        self._left_s = 0.0
        self.setObjectName(name)
        self.title = self._label(f"{name}_title", "lead")
        self.words = self._label(f"{name}_words", "dim")
        self.button = push_button("", self, f"{name}_button")
        self.second = push_button("", self, f"{name}_second")
        self._second_act: Callable[[], None] | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tick)
        self.button.clicked.connect(self._run)
        self.second.clicked.connect(self._run_second)
        self._fill(self.title, self.words, self.button, self.second)
        theme.space(self._column, 8, margins=16)
        for label in (self.title, self.words):
            theme.at_most(label, WIDTH_PX)

    def show_state(
        self,
        title: str,
        words: str,
        *,
        button: str = "",
        act: Callable[[], None] | None = None,
        again_in_s: float | None = None,
        second: str = "",
        second_act: Callable[[], None] | None = None,
    ) -> None:
        """`second` is another way on, if there is one."""
        self.title.setText(title)
        self.words.setText(words)
        self.setAccessibleName(title or "Hub")
        self.setAccessibleDescription(words)
        if said := f"{title}. {words}".strip(". "):
            announce(self, said)
        self._act, self._second_act = act, second_act
        self.button.setText(button)
        self.button.setAccessibleName(button)
        self.button.setVisible(bool(button))
        self.second.setText(second)
        self.second.setAccessibleName(second)
        self.second.setVisible(bool(second))
        self._timer.stop()
        if again_in_s is not None:
            self._left_s = again_in_s
            self._tick(0)
            self._timer.start()

    def stop(self) -> None:
        """Nothing is done by itself any more."""
        self._timer.stop()

    def _tick(self, passed_ms: int = TICK_MS) -> None:
        self._left_s -= passed_ms / 1000
        if self._left_s <= 0 and passed_ms:
            self._run()
        else:
            self.button.setText(wait_text(self._left_s))

    def _run(self) -> None:
        self._timer.stop()
        if self._act is not None:
            self._act()

    def _run_second(self) -> None:
        if self._second_act is not None:
            self._second_act()
