"""The models of servers in the model menu, below those of this machine, by server.

They are asked when the menu opens, and what they answer comes in while it is open: rows are
exchanged within their group, so that the others stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from app.chat.engines.engines import Standing
from ui.chat.header import MOST_WORDS, ChatHeader
from ui.widgets.elided import tip_text
from ui.widgets.figures import cut_short

if TYPE_CHECKING:
    from app.chat.desk import Desk

MOST_MODELS: Final = 12
"""Of one server in the menu itself; the rest is in a menu of its own."""


class EngineMenu(QObject):
    """`show_settings`: where engines are entered."""

    def __init__(self, desk: Desk, header: ChatHeader, show_settings: Callable[[], None]) -> None:
        super().__init__(header)
        self._desk = desk
        self._header = header
        self._show_settings = show_settings
        self._shown: dict[str, tuple[Standing, list[QAction]]] = {}
        self._ends: dict[str, QAction] = {}
        header.menu_filled.connect(self._fill)
        self.destroyed.connect(desk.engines.follow(self._follow))

    def _fill(self) -> None:
        """The menu is about to be shown, and has been made anew."""
        menu, engines = self._header.menu, self._desk.engines
        self._shown.clear()
        self._ends.clear()
        before = menu.actions()[0] if self._header.menu_end is None else self._end_of_files(menu)
        for standing in engines.all:
            end = menu.insertSeparator(before)
            self._ends[standing.address.id] = end
            self._show(standing)
        settings = QAction("Engines…", menu)
        settings.triggered.connect(lambda _=False: self._show_settings())
        menu.addAction(settings)
        engines.look()

    def _end_of_files(self, menu: QMenu) -> QAction:
        actions = menu.actions()
        assert self._header.menu_end is not None
        return actions[actions.index(self._header.menu_end) + 1]

    def _follow(self) -> None:
        if not self._header.menu.isVisible():
            return
        for standing in self._desk.engines.all:
            shown = self._shown.get(standing.address.id)
            if shown is not None and shown[0] != standing:
                self._show(standing)

    def _show(self, standing: Standing) -> None:
        menu, engine_id = self._header.menu, standing.address.id
        _, former = self._shown.get(engine_id, (None, []))
        end = self._ends[engine_id]
        rows = self._rows(standing, menu)
        if [_looks(each) for each in rows] != [_looks(each) for each in former]:
            for action in former:
                menu.removeAction(action)
                action.deleteLater()
            menu.insertActions(end, rows)
        else:
            for action in rows:
                action.deleteLater()
            rows = former
        self._shown[engine_id] = (standing, rows)

    def _rows(self, standing: Standing, menu: QMenu) -> list[QAction]:
        name = standing.address.name
        kind = f" · {standing.offer.kind_name}" if standing.offer is not None else ""
        rows = [_said(f"{name}{kind}", standing.address.url, menu)]
        models = standing.models()
        loaded = self._desk.loader.loaded
        path = loaded.path if loaded is not None else ""
        rows += [
            self._header.action_for(weights, weights.path == path, menu, standing.address.url)
            for weights in models[:MOST_MODELS]
        ]
        if len(models) > MOST_MODELS:
            more = QMenu(f"{len(models) - MOST_MODELS:,} more", menu)
            for weights in models[MOST_MODELS:]:
                is_loaded, url = weights.path == path, standing.address.url
                more.addAction(self._header.action_for(weights, is_loaded, more, url))
            rows.append(more.menuAction())
        if standing.sentence:
            rows.append(_said(standing.sentence, standing.sentence, menu))
        elif standing.offer is None:
            rows.append(_said("Connecting…", "", menu))
        elif not models:
            rows.append(_said("It offers no models", "", menu))
        return rows


def _said(words: str, hint: str, menu: QMenu) -> QAction:
    """A row that only says something."""
    action = QAction(cut_short(words, MOST_WORDS).replace("&", "&&"), menu)
    action.setToolTip(tip_text(hint))
    action.setEnabled(False)
    return action


def _looks(action: QAction) -> tuple[str, bool, bool, str]:
    return action.text(), action.isChecked(), action.isEnabled(), action.toolTip()
