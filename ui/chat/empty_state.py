"""What stands where the chat will be: the first step for somebody who begins."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QWidget

from ui.look.theme import Theme
from ui.shell.keys import shown_key
from ui.widgets.centred_area import CentredArea

WIDTH_PX = 440
WITHOUT_WEIGHTS = (
    "Cutaway needs a GGUF file: the weights of a language model. Find one that fits this machine, "
    "or open one that you have."
)


class EmptyState(CentredArea):
    """No weights are known (`library_requested`, `open_file_requested`), or an empty chat waits
    for a message."""

    open_file_requested = Signal()
    library_requested = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("empty_state")
        self._title = self._label("empty_title")
        self._words = self._label("empty_words")
        self.open_button = QPushButton("Open a GGUF file…", self)
        self.open_button.setObjectName("open_gguf_button")
        self.open_button.setAccessibleName("Open a GGUF file")
        self.open_button.setToolTip(shown_key("Ctrl+O"))
        self.open_button.clicked.connect(self.open_file_requested)
        self.library_button = QPushButton("Find weights…", self)
        self.library_button.setObjectName("find_weights_button")
        self.library_button.setAccessibleName("Find weights in the library")
        self.library_button.setToolTip(shown_key("Ctrl+Shift+W"))
        self.library_button.setProperty("kind", "primary")
        self.library_button.clicked.connect(lambda: self.library_requested.emit(""))
        self._fill(self._title, self._words, 8, self.library_button, self.open_button)
        theme.changed.connect(self._fit)
        self._fit()

    def show_no_weights(self, sentence: str) -> None:
        self._title.setText("No weights yet")
        self._words.setText(sentence or WITHOUT_WEIGHTS)
        self._offer(True)

    def show_new_chat(self, weights_name: str) -> None:
        self._title.setText(f"Ask {weights_name}" if weights_name else "Ask something")
        if weights_name:
            self._words.setText("Write a message below. It answers here, on this machine.")
        else:
            self._words.setText("Choose weights above; they will answer, here on this machine.")
        self._offer(False)

    def show_loading(self, weights_name: str) -> None:
        self._title.setText(f"Ask {weights_name}" if weights_name else "Ask something")
        self._words.setText("The weights are being loaded. You can write meanwhile.")
        self._offer(False)

    def _offer(self, is_offered: bool) -> None:
        self.library_button.setVisible(is_offered)
        self.open_button.setVisible(is_offered)

    def _fit(self) -> None:
        px, colors = self._theme.px, self._theme.colors
        self._column.setSpacing(px(8))
        self._words.setMaximumWidth(px(WIDTH_PX))
        self._title.setMaximumWidth(px(WIDTH_PX))
        size = self._theme.font_text().pixelSize()
        self._title.setStyleSheet(f"font-size: {round(size * 1.25)}px; font-weight: 600;")
        self._words.setStyleSheet(f"color: {colors.dim};")
