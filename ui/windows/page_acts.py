"""The tour of the token that is looked at, saved as a page: where to, how far it is, its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.chat.events import PageProgressed, PageSaved
from app.chat.tour.wish import Wish
from models.records import Role
from ui.look.theme import Theme
from ui.shell.actions import Action, Actions
from ui.shell.dialogs import open_file, show_folder
from ui.shell.notices import Act, Notice, ToastArea
from ui.widgets.kit import rest_timer
from ui.windows.exchange_acts import ExchangeActs

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.insight.tour.facts import Facts
    from ui.section.looking import Looking
    from ui.windows.progress import Progress

PAGE_KEY: Final = "Ctrl+Alt+P"
PATIENCE_MS: Final = 500
"""A page that is saved sooner tells nothing of its way."""


class PageActs(QObject):
    """`looking`: what is looked at, None while nobody has looked at anything. `known`: facts of
    that token that are known already."""

    def __init__(
        self,
        desk: Desk,
        bridge: Bridge,
        theme: Theme,
        files: ExchangeActs,
        toasts: ToastArea,
        looking: Callable[[], Looking | None],
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._desk = desk
        self._theme = theme
        self._files = files
        self._toasts = toasts
        self._looking = looking
        self._window = window
        self._how_far: tuple[int, int] = (0, 0)
        self._progress: Progress | None = None
        self._late = rest_timer(self, self._show_progress, PATIENCE_MS)
        self.known: Callable[[], Facts] = dict
        bridge.on(PageProgressed, self._on_progressed)
        bridge.on(PageSaved, self._on_saved)

    def add_actions(self, actions: Actions) -> None:
        actions.add(
            Action(
                "tour_page",
                "Save this token's tour as a page…",
                PAGE_KEY,
                self.save,
                self.can_save,
                group="Help",
            )
        )

    def can_save(self) -> bool:
        """Whether a token of a whole reply is looked at."""
        looking = self._looking()
        return looking is not None and looking.token is not None and not looking.is_growing

    def save(self) -> None:
        """Ask where to, then have it made; about the token that is looked at now."""
        looking = self._looking()
        if looking is None or not self.can_save():
            return
        message, token, index = looking.message, looking.token, looking.index
        if message is None or token is None or index is None:
            return
        wish = Wish(message, looking.traces, index, self._asked(message.parent_id), self.known())
        title = f"Follow one token {token.piece.decode('utf-8', 'replace').strip()}"
        self._files.ask_where_page(title, lambda path: self._desk.pages.save(wish, path))

    def _asked(self, parent_id: str | None) -> str:
        """The message that was answered."""
        path = self._desk.shelf.path
        asked = (m.content for m in path if m.id == parent_id and m.role is Role.USER)
        return next(asked, "")

    # --- how far it is --------------------------------------------------------------------------

    def _on_progressed(self, event: PageProgressed) -> None:
        if event.is_over:
            self._late.stop()
            self._how_far = (0, 0)
            progress, self._progress = self._progress, None
            if progress is not None:
                progress.close()
                progress.deleteLater()
            return
        if self._how_far == (0, 0):
            self._late.start()
        self._how_far = (event.done, event.total)
        if self._progress is not None:
            self._progress.show_progress(event.done, event.total)

    def _show_progress(self) -> None:
        from ui.windows.progress import PAGE, Progress

        self._progress = Progress(self._theme, PAGE, self._window)
        self._progress.cancelled.connect(self._desk.pages.cancel)
        self._progress.show_progress(*self._how_far)
        self._progress.show()

    def _on_saved(self, event: PageSaved) -> None:
        path = Path(event.path)
        acts = (
            Act("Open", lambda: open_file(self._window, path)),
            Act("Show in folder", lambda: show_folder(self._window, path.parent)),
        )
        self._toasts.show_notice(
            Notice("page_saved", "info", f"Saved as “{path.name}”.", acts=acts)
        )
