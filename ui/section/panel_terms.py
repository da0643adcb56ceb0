"""The terms of a panel as it stands on the screen: in labels, headings, buttons, and pictures."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QHeaderView, QTabBar, QWidget

from app.chat.tour.chapters import Term
from app.chat.tour.terms import terms_in
from ui.section.term_label import Terms


def terms_of(panel: QWidget) -> tuple[Term, ...]:
    """Each once, by name. What somebody wrote (a chat's title, a token) is none of it."""
    found = {each.term.name: each.term for text in _words(panel) for each in terms_in(text)}
    return tuple(found[name] for name in sorted(found, key=str.casefold))


def _words(panel: QWidget) -> Iterator[str]:
    for widget in panel.findChildren(QWidget):
        if not widget.isVisible():
            continue
        if isinstance(widget, Terms):
            yield widget.text()
        elif isinstance(widget, QHeaderView):
            yield from _headings(widget)
        elif isinstance(widget, QTabBar):
            yield from (widget.tabText(at) for at in range(widget.count()))
        elif isinstance(widget, QAbstractButton):
            yield widget.text() or widget.accessibleName()
        else:
            yield widget.accessibleName()


def _headings(header: QHeaderView) -> Iterator[str]:
    model = header.model()
    for section in range(header.count()):
        if not header.isSectionHidden(section):
            yield str(model.headerData(section, header.orientation(), Qt.ItemDataRole.DisplayRole))
