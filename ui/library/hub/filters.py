"""What a search on a hub is narrowed and sorted by. It keeps what was chosen while the app runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from app.hub.records import SearchWish, Sort
from app.hub.tags import LANGUAGES, LICENCES
from ui.look.theme import Theme
from ui.widgets.check_box import CheckBox
from ui.widgets.combo import Combo
from ui.widgets.flow import FlowLayout

SORTS: Final[dict[Sort, str]] = {
    "downloads": "Most downloaded",
    "trending": "Trending",
    "likes": "Most liked",
    "updated": "Recently updated",
    "created": "Newest",
}
AGES: Final = {0: "Any age", 30: "Updated this month", 90: "Last 3 months", 365: "This year"}


class HubFilters(QWidget):
    """`changed`: a search would bring something else now."""

    changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("hub_filters")
        self.setAccessibleName("Sort and filters")
        self.sort = self._combo("hub_sort", "Sort by", SORTS)
        self.language = self._combo("hub_language", "Language", {"": "Any language", **LANGUAGES})
        self.licence = self._combo("hub_licence", "Licence", {"": "Any licence", **LICENCES})
        self.age = self._combo("hub_age", "Age", AGES)
        self.author = QLineEdit(self)
        self.author.setObjectName("hub_author")
        self.author.setAccessibleName("Author")
        self.author.setPlaceholderText("Any author")
        self.author.setToolTip("Exact name of the publishing account")
        self.author.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.gguf_only = CheckBox(theme, "GGUF only", self)
        self.gguf_only.setObjectName("hub_gguf_only")
        self.gguf_only.setToolTip("Only repositories with files Cutaway can load")
        self.gguf_only.setChecked(True)
        self.fitting = CheckBox(theme, "Fits this machine", self)
        self.fitting.setObjectName("hub_fitting")
        self.fitting.setToolTip(
            "Hides models that don't fit in free memory even at 4 bits. Models of unknown size "
            "are still shown."
        )
        self._flow = FlowLayout(self)
        for widget in (self.sort, self.language, self.licence, self.age):
            self._flow.addWidget(widget)
            widget.currentIndexChanged.connect(self.changed)
        self._flow.addWidget(self.author)
        self._flow.addWidget(self.gguf_only)
        self._flow.addWidget(self.fitting)
        self.author.editingFinished.connect(self._on_author)
        self.gguf_only.toggled.connect(self.changed)
        self.fitting.toggled.connect(self.changed)
        self._author = ""
        theme.changed.connect(self._fit)
        theme.space(self._flow, 8)
        theme.size(self.author, 130)
        self._fit()

    def _combo(self, name: str, spoken: str, choices: Mapping[Any, str]) -> Combo:
        combo = Combo(self._theme, self)
        combo.setObjectName(name)
        combo.setAccessibleName(spoken)
        combo.setMinimumContentsLength(max(len(choices[next(iter(choices))]), 10))
        for value, words in choices.items():
            combo.addItem(words, value)
        return combo

    def _on_author(self) -> None:
        """Leaving the field is no change by itself."""
        if self.author.text().strip() != self._author:
            self._author = self.author.text().strip()
            self.changed.emit()

    @property
    def are_usual(self) -> bool:
        """Whether nothing is left out but what cannot be loaded."""
        usual = SearchWish(sort=self.sort.currentData())
        return self.wish("", 1) == usual

    def reset(self) -> None:
        """Leave nothing out but what cannot be loaded; the order stays."""
        was_usual = self.are_usual
        self.blockSignals(True)
        for combo in (self.language, self.licence, self.age):
            combo.setCurrentIndex(0)
        self.author.clear()
        self._author = ""
        self.gguf_only.setChecked(True)
        self.fitting.setChecked(False)
        self.blockSignals(False)
        if not was_usual:
            self.changed.emit()

    def wish(self, text: str, free_bytes: int) -> SearchWish:
        """The search for a text; `free_bytes` of memory bound what fits."""
        return SearchWish(
            text=text.strip(),
            sort=self.sort.currentData(),
            gguf_only=self.gguf_only.isChecked(),
            author=self.author.text().strip(),
            licence=self.licence.currentData(),
            language=self.language.currentData(),
            updated_within_days=self.age.currentData() or None,
            max_parameters=parameters_in(free_bytes) if self.fitting.isChecked() else None,
        )

    def _fit(self) -> None:
        for box in (self.gguf_only, self.fitting):
            box.setFixedHeight(self.sort.sizeHint().height())
        self.updateGeometry()


def parameters_in(free_bytes: int) -> int:
    """How many parameters fit at about 4 bits each (Q4_0 has 4.5), beside a tenth for the rest.

    >>> parameters_in(8_000_000_000)
    12800000000
    """
    return int(free_bytes * 0.9 * 8 / 4.5)
