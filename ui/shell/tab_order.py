"""The way of Tab through widgets that are built one after another.

Qt puts whatever is built later behind everything in the window. What must hold: Tab goes as the
eye does, also to what came late, and the way to what stands around stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget


def stops_in(whole: QWidget | None) -> list[QWidget]:
    """What Tab can stop at in there, itself included, in the order in which it was built. The list
    of a choice, which opens in a window of its own, is none."""
    if whole is None:
        return []
    window = whole.window()
    inside = (whole, *whole.findChildren(QWidget))
    return [w for w in inside if _is_stop(w) and w.window() is window]


def put_in_order(stops: Sequence[QWidget], fixed: QWidget) -> None:
    """Tab goes through `stops` in this order, at the place where `fixed`, one of them, stands."""
    before = _stop_before(fixed, stops)
    if before is not None:
        QWidget.setTabOrder(before, stops[0])
    for first, second in pairwise(stops):
        QWidget.setTabOrder(first, second)


def _stop_before(fixed: QWidget, stops: Sequence[QWidget]) -> QWidget | None:
    before = fixed.previousInFocusChain()
    while before is not None and before is not fixed:
        if _is_stop(before) and before not in stops:
            return before
        before = before.previousInFocusChain()
    return None


def _is_stop(widget: QWidget) -> bool:
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and widget.focusProxy() is None
