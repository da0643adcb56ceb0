"""The headings of a table: a right click on one looks its term up. A click may sort, and an
underline would look like a link there; the tooltip says it instead."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QMenu, QTableView

from app.chat.tour.chapters import Term
from app.chat.tour.terms import terms_in
from ui.section.term_label import ask_for
from ui.widgets.kit import show_tip

LOOK_UP: Final = "Look up “{}”"
HINT: Final = "Right-click to look up “{}”."


class HeadingTerms(QObject):
    """Lives with the table."""

    def __init__(self, table: QTableView) -> None:
        super().__init__(table)
        self._header = table.horizontalHeader()
        self._header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._header.customContextMenuRequested.connect(self._open_menu)
        self._header.viewport().installEventFilter(self)

    def _said(self, section: int, role: Qt.ItemDataRole) -> str:
        model = self._header.model()
        words = model.headerData(section, Qt.Orientation.Horizontal, role) if section >= 0 else None
        return words if isinstance(words, str) else ""

    def _terms(self, section: int) -> list[Term]:
        words = self._said(section, Qt.ItemDataRole.DisplayRole)
        return [found.term for found in terms_in(words)]

    def _open_menu(self, place: QPoint) -> None:
        section = self._header.logicalIndexAt(place)
        terms = self._terms(section)
        if not terms:
            return
        menu = QMenu(self._header)
        menu.setObjectName("heading_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for term in terms:
            act = menu.addAction(LOOK_UP.format(term.name))
            act.triggered.connect(lambda _=False, term=term: self._ask(term, section))
        menu.popup(self._header.viewport().mapToGlobal(place))

    def _ask(self, term: Term, section: int) -> None:
        header = self._header
        left, width = header.sectionViewportPosition(section), header.sectionSize(section)
        ask_for(term, header, QRect(left, 0, width, header.height()))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.ToolTip or not isinstance(event, QHelpEvent):
            return False
        section = self._header.logicalIndexAt(event.pos())
        terms = self._terms(section)
        if not terms:
            return False
        hint = self._said(section, Qt.ItemDataRole.ToolTipRole)
        if hint and not hint.endswith("."):
            hint += "."
        words = " ".join(each for each in (hint, HINT.format(terms[0].name)) if each)
        show_tip(event.globalPos(), words, self._header)
        return True
