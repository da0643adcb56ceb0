"""What stands where the chat will be: the first step for somebody who begins."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme
from ui.shell.keys import shown_key
from ui.widgets.centred_area import CentredArea
from ui.widgets.kit import push_button

WIDTH_PX = 440
TOUR = "New here? Follow one token through the model"
WITHOUT_WEIGHTS = (
    "Cutaway needs a language model in GGUF format. Find one that fits your computer, or open "
    "one you already have."
)


class EmptyState(CentredArea):
    """No weights are known (`library_requested`, `open_file_requested`), or an empty chat waits
    for a message. `tour_requested`: by a quiet line there."""

    open_file_requested = Signal()
    library_requested = Signal(str)
    tour_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("empty_state")
        self._title = self._label("empty_title", "headline")
        self._words = self._label("empty_words", "dim")
        self.open_button = push_button(
            "Open a GGUF file…",
            self,
            "open_gguf_button",
            spoken="Open a GGUF file",
            hint=shown_key("Ctrl+O"),
            act=self.open_file_requested,
        )
        self.library_button = push_button(
            "Find a model…",
            self,
            "find_weights_button",
            kind="primary",
            spoken="Find a model in the library",
            hint=shown_key("Ctrl+Shift+W"),
            act=lambda: self.library_requested.emit(""),
        )
        self.tour_button = push_button(
            TOUR, self, "empty_tour_button", kind="quiet", spoken=TOUR, act=self.tour_requested
        )
        self._is_tour_offered = False
        self._fill(
            *(self._title, self._words, 8, self.library_button, self.open_button, self.tour_button)
        )
        theme.font(self.tour_button, Theme.font_small)
        self._offer(False)
        theme.space(self._column, 8)
        for label in (self._title, self._words):
            theme.at_most(label, WIDTH_PX)

    def show_no_weights(self, sentence: str) -> None:
        self._title.setText("No model yet")
        self._words.setText(sentence or WITHOUT_WEIGHTS)
        self._offer(True)

    def show_new_chat(self, weights_name: str, server: str = "") -> None:
        """`server`: whose model it is, if it isn't on this computer."""
        self._title.setText(f"Ask {weights_name}" if weights_name else "Ask something")
        if server:
            self._words.setText(f"Write a message below. This chat is sent to “{server}”.")
        elif weights_name:
            self._words.setText("Write a message below. Everything runs on your computer.")
        else:
            self._words.setText("Choose a model above.")
        self._offer(False)

    def show_loading(self, weights_name: str, *, is_remote: bool = False) -> None:
        self._title.setText(f"Ask {weights_name}" if weights_name else "Ask something")
        what = "Connecting to the server" if is_remote else "Loading the model"
        self._words.setText(f"{what}. You can start writing.")
        self._offer(False)

    def offer_tour(self, is_offered: bool) -> None:
        """Until it was begun once."""
        self._is_tour_offered = is_offered
        self._offer(not self.open_button.isHidden())

    def _offer(self, is_offered: bool) -> None:
        """Weights to find; where there are some, the tour."""
        self.library_button.setVisible(is_offered)
        self.open_button.setVisible(is_offered)
        self.tour_button.setVisible(self._is_tour_offered and not is_offered)
