"""What almost every view is made of, in one call each: labels, buttons, timers.

`kind` is one of the sheet's (`ui.look.theme_sheet`); `name` is the object's name, `spoken` what a
screen reader says of it. The frame that is painted first does without: it imports nothing more.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, Qt, QTimer, SignalInstance
from PySide6.QtWidgets import QLabel, QPushButton, QToolTip, QWidget

from ui.widgets.elided import tip_text


def plain_label(
    text: str = "",
    parent: QWidget | None = None,
    kind: str = "",
    *,
    name: str = "",
    spoken: str = "",
    wraps: bool = False,
) -> QLabel:
    """Whatever the text is, it is no markup."""
    label = QLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wraps)
    _name(label, name, spoken, kind)
    return label


def push_button(
    text: str = "",
    parent: QWidget | None = None,
    name: str = "",
    *,
    kind: str = "",
    spoken: str = "",
    hint: str = "",
    act: Callable[..., object] | SignalInstance | None = None,
) -> QPushButton:
    """`act` is what a click does."""
    button = QPushButton(text, parent)
    _name(button, name, spoken, kind)
    if hint:
        button.setToolTip(hint)
    if act is not None:
        button.clicked.connect(act)
    return button


def show_tip(where: QPoint, words: str, widget: QWidget) -> None:
    QToolTip.showText(where, tip_text(words), widget)


def rest_timer(
    parent: QObject, act: Callable[[], object] | SignalInstance, after_ms: int = 0
) -> QTimer:
    """Does `act` once, so long after it was last started: what comes in a row is done once."""
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.setInterval(after_ms)
    timer.timeout.connect(act)
    return timer


def _name(widget: QWidget, name: str, spoken: str, kind: str) -> None:
    if name:
        widget.setObjectName(name)
    if spoken:
        widget.setAccessibleName(spoken)
    if kind:
        widget.setProperty("kind", kind)
