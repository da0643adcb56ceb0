"""What the window opens over or beside itself, each built when it is first asked for.

None of it belongs to the first paint. They close with the window, once that really closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.chat.events import VectorsWanted
from models.records import Weights
from ui.look.theme import Theme
from ui.shell.actions import Actions
from ui.widgets.figures import plain_name

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.library.view import LibraryView
    from ui.settings.levels_window import LevelsWindow
    from ui.shell.palette import Palette
    from ui.shell.palette_rows import Row
    from ui.shell.section_acts import SectionActs
    from ui.tour.glossary import Glossary
    from ui.windows.beams_window import BeamsWindow
    from ui.windows.presets_window import PresetsWindow
    from ui.windows.vectors_window import VectorsWindow


class LazyWindows(QObject):
    """`focus_composer`: for when one of them leads back to the chat."""

    def __init__(
        self,
        window: QWidget,
        desk: Desk,
        bridge: Bridge,
        theme: Theme,
        actions: Actions,
        section_acts: SectionActs,
        focus_composer: Callable[[], None],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._desk = desk
        self._bridge = bridge
        self._theme = theme
        self._actions = actions
        self._section_acts = section_acts
        self._focus_composer = focus_composer
        self._palette: Palette | None = None
        self._levels_window: LevelsWindow | None = None
        self._presets_window: PresetsWindow | None = None
        self._vectors_window: VectorsWindow | None = None
        self._library: LibraryView | None = None
        self._beams_window: BeamsWindow | None = None
        self._glossary: Glossary | None = None
        self._beside: list[QWidget] = []
        bridge.on(VectorsWanted, self.show_vectors)

    def palette(self) -> Palette:
        if self._palette is None:
            from ui.shell.palette import Palette

            self._palette = Palette(
                self._window,
                self._theme,
                self._actions,
                lambda: self._desk.shelf.conversations,
                self._open_conversation,
                self._models,
            )
        return self._palette

    def _models(self) -> list[Row]:
        """Those of this machine, and of servers that have answered."""
        from ui.shell.palette_rows import Row

        def row(weights: Weights, place: str) -> Row:
            load = partial(self._desk.loader.load, weights.path)
            return Row(f"Load {plain_name(weights.name)}", load, place, also=("switch model",))

        self._desk.engines.look()
        loaded = self._desk.loader.loaded
        here = [row(each, "Model") for each in self._desk.local.for_menu()]
        there = [
            row(each, standing.address.name)
            for standing in self._desk.engines.all
            for each in standing.models()
            if loaded is None or loaded.path != each.path
        ]
        return [*here, *there]

    def _open_conversation(self, conversation_id: str) -> None:
        self._desk.shelf.open_stored(conversation_id)
        self._focus_composer()

    def show_levels(self) -> None:
        """What the next reply of the open chat is made with, and whence."""
        self._levels().show_chat()

    def show_reply(self, message_id: str) -> None:
        """What a reply was made with."""
        self._levels().show_reply(message_id)

    def _levels(self) -> LevelsWindow:
        if self._levels_window is None:
            from ui.settings.levels_window import LevelsWindow

            self._levels_window = LevelsWindow(self._desk, self._bridge, self._theme, self._window)
            self._beside.append(self._levels_window)
        return self._levels_window

    def show_presets(self) -> None:
        if self._presets_window is None:
            from ui.windows.presets_window import PresetsWindow

            self._presets_window = PresetsWindow(
                self._desk, self._bridge, self._theme, self._window
            )
            self._beside.append(self._presets_window)
        self._presets_window.open()

    def show_beams(self, *, at_token: bool = False) -> None:
        """A beam search: at the last question or the cursor, or at the token that is looked at."""
        if self._beams_window is None:
            from ui.windows.beams_window import BeamsWindow

            self._beams_window = BeamsWindow(self._desk, self._bridge, self._theme, self._window)
            self._beside.append(self._beams_window)
        origin = None
        looking = self._section_acts.looked_at() if at_token else None
        if looking is not None and looking.message is not None and looking.index is not None:
            origin = self._desk.beams.origin_at(looking.message.id, looking.index)
        self._beams_window.open(origin)

    def has_token(self) -> bool:
        """Whether a token of a reply is looked at."""
        looking = self._section_acts.looked_at()
        return looking is not None and looking.message is not None and looking.index is not None

    def show_vectors(self) -> None:
        """Control vectors that were made here, and the form for another one."""
        if self._vectors_window is None:
            from ui.windows.vectors_window import VectorsWindow

            self._vectors_window = VectorsWindow(
                self._desk, self._bridge, self._theme, self._window
            )
            self._beside.append(self._vectors_window)
        self._vectors_window.open()

    def show_library(self, page: str = "") -> None:
        """Weights: on this machine, on the hub, on their way. Without a name, the page that was
        shown last."""
        self._library_view().show_page(page)

    def show_defaults(self, path: str = "", part: str = "") -> None:
        """What is set for weights: those in the file, or those that are loaded or were last."""
        known = self._desk.loader.known_weights()
        path = path or self._desk.loader.path or (known[0].path if known else "")
        if path:
            self._library_view().show_defaults(path, part)

    def find_projector(self, path: str = "") -> None:
        """On the hub, for the model in a file or for the one that is loaded."""
        self._library_view().find_projector(path)

    def _library_view(self) -> LibraryView:
        if self._library is None:
            from ui.library.view import LibraryView

            self._library = LibraryView(self._desk, self._bridge, self._theme, self._window)
            self._library.chat_requested.connect(self._on_chat_requested)
            self._beside.append(self._library)
        return self._library

    def glossary(self) -> Glossary:
        """What terms mean; its texts are read with it."""
        if self._glossary is None:
            from ui.tour.glossary import Glossary

            self._glossary = Glossary(self._window, self._desk, self._theme, self._section_acts)
        return self._glossary

    def _on_chat_requested(self) -> None:
        self._window.activateWindow()
        self._focus_composer()

    def close(self) -> None:
        """The window closes, and nobody wants to stay."""
        for widget in self._beside:
            widget.close()
        if self._glossary is not None:
            self._glossary.close()
