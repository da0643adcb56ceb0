"""Which weights shall draft for these: those with the same vocabulary, found by themselves. The
choice also sets speculative decoding for these weights, or ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from app.amounts import bytes_words
from app.chat.weights.draft_partners import EFFECT, LOOKING, Partners
from app.chat.weights.load_settings import DRAFT
from ui.look.theme import Theme
from ui.section.card import small_label

if TYPE_CHECKING:
    from app.chat.desk import Desk

NO_DRAFT = "None"
DRAFTS = "drafts"
_PATH = Qt.ItemDataRole.UserRole
Apply = Callable[[str, object], str]


class DraftList(QWidget):
    """The chosen row is kept as soon as it is chosen."""

    def __init__(
        self, desk: Desk, theme: Theme, apply: Apply, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._apply = apply
        self._path = ""
        self._partners: Partners | None = None
        self.setObjectName("draft_list")
        self.words = small_label(EFFECT, self)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.list = QListWidget(self)
        self.list.setObjectName("draft_partners")
        self.list.setAccessibleName("Draft model")
        self.list.currentItemChanged.connect(self._on_chosen)
        self.others = small_label("", self, name="draft_others")
        self.others.setTextFormat(Qt.TextFormat.PlainText)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.words)
        self._column.addWidget(self.list, 1)
        self._column.addWidget(self.others)
        theme.space(self._column, 8)
        theme.at_least(self.list, height=96)

    def show_path(self, path: str) -> None:
        if path != self._path:
            self._path, self._partners = path, None
        self._show()
        if self._partners is None:
            self._find()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._find()  # there may be others by now

    def _find(self) -> None:
        """Vocabularies are compared once somebody looks; those seen before are remembered."""
        if self._path and self.isVisible():
            path = self._path
            self._desk.partners.find(path, lambda found: self._take(path, found))

    def _take(self, path: str, found: Partners) -> None:
        if path == self._path:
            self._partners = found
            self._show()

    def _show(self) -> None:
        chosen = self._desk.defaults.value(self._path, DRAFT) if self._path else ""
        found = self._partners
        rows = [("", NO_DRAFT)]
        fitting = found.fitting if found is not None else ()
        rows += [(each.path, f"{each.name} · {bytes_words(each.size_bytes)}") for each in fitting]
        if chosen and chosen not in (path for path, _ in rows):
            lost = " (no longer fits)" if found is not None else ""
            rows.append((chosen, f"{self._desk.loader.name_of(chosen)}{lost}"))
        self.list.blockSignals(True)
        self.list.clear()
        for path, words in rows:
            item = QListWidgetItem(words, self.list)
            item.setData(_PATH, path)
            item.setToolTip(path)
            if path == chosen:
                self.list.setCurrentItem(item)
        self.list.blockSignals(False)
        self.others.setText(self._about_others(found))

    def _about_others(self, found: Partners | None) -> str:
        if found is None:
            return LOOKING
        if found.sentence:
            return found.sentence
        lines = [f"{each.candidate.name}: {each.difference}" for each in found.others]
        return "\n".join(["Smaller models that can't draft:", *lines]) if lines else ""

    def _on_chosen(self, item: QListWidgetItem | None) -> None:
        if item is None:
            return
        path = item.data(_PATH)
        refusal = self._apply(DRAFT, path)
        if not refusal and path:
            refusal = self._apply(DRAFTS, "model")
        elif not refusal and self._is_by_model():
            self._desk.defaults.reset(self._path, [DRAFTS])
        self.words.setText(refusal or EFFECT)

    def _is_by_model(self) -> bool:
        return bool(self._desk.defaults.resolved(self._path).settings.drafts == "model")
