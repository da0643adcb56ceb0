"""Looks for what has less room than it needs, and for what is laid over something else."""

from __future__ import annotations

from itertools import combinations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QTableView, QWidget

from ui.look.theme_sheet import HEADING_PX


def least(widget: QWidget) -> int:
    """The height without which it is cut, at the width that it has."""
    if widget.minimumHeight():
        return widget.minimumHeight()
    layout = widget.layout()
    if layout is not None and layout.hasHeightForWidth():
        return layout.totalMinimumHeightForWidth(widget.width())
    if isinstance(widget, QLabel) and widget.hasHeightForWidth():
        return widget.heightForWidth(widget.width())
    return widget.minimumSizeHint().height()


def squeezed(panel: QWidget) -> list[str]:
    """What is lower than it has to be, and what is laid over another."""
    found: list[str] = []
    for parent in (panel, *panel.findChildren(QWidget)):
        if parent.layout() is None or not parent.isVisible():
            continue
        inside = [w for w in parent.children() if isinstance(w, QWidget) and w.isVisible()]
        inside = [w for w in inside if parent.layout().indexOf(w) >= 0]
        found += [
            f"{widget.objectName() or widget} is lower than {least(widget)}"
            for widget in inside
            if widget.height() < least(widget)
        ]
        found += [
            f"{one.objectName() or one} over {other.objectName() or other}"
            for one, other in combinations(inside, 2)
            if not one.geometry().intersected(other.geometry()).isEmpty()
        ]
    return found


def squeezed_headings(table: QTableView) -> list[str]:
    """Headings of a tight table of which a line does not fit beside the padding. A last column
    that stretches has what the others leave."""
    header = table.horizontalHeader()
    found = []
    for at in range(header.count() - header.stretchLastSection()):
        text = table.model().headerData(at, Qt.Orientation.Horizontal)
        wide = max(header.fontMetrics().horizontalAdvance(line) for line in text.split("\n"))
        if wide + 2 * HEADING_PX > header.sectionSize(at):
            found.append(text)
    return found
