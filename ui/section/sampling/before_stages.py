"""What forbade tokens before the first stage of a reply's chain: bans and the grammar, as cards."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QSizePolicy, QVBoxLayout, QWidget

from app.engine.protocol.pieces import Pieces
from app.insight.sampling.stage_evidence import Evidence, StageEvidence
from ui.look.theme import Theme
from ui.section.sampling.evidence_view import EvidenceView
from ui.section.sampling.stage_words import BEFORE
from ui.section.term_label import term_label


class BeforeStages(QWidget):
    """Nothing, where nothing was forbidden."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.cards: dict[str, EvidenceView] = {}
        self._frames: dict[str, QFrame] = {}
        self.setObjectName("before_stages")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self.hide()

    def show_rows(self, told: Evidence | None, words: Pieces | None) -> None:
        rows = [] if told is None else [row for row in told.stages if row.position is None]
        for name, frame in self._frames.items():
            frame.setVisible(any(row.name == name for row in rows))
        for row in rows:
            self._view(row).show_stage(row, BEFORE[row.name][0], words)
        self.setVisible(bool(rows))

    def _view(self, row: StageEvidence) -> EvidenceView:
        if row.name not in self.cards:
            title, sentence = BEFORE[row.name]
            frame = QFrame(self)
            frame.setProperty("plane", "card")
            frame.setObjectName(f"before_{row.name.replace('-', '_')}")
            frame.setAccessibleName(title)
            frame.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
            column = QVBoxLayout(frame)
            self._theme.space(column, 4, margins=(12, 8, 12, 10))
            name = term_label(title, frame, "strong")
            words = term_label(sentence, frame, "small", wraps=True)
            view = EvidenceView(self._theme, frame)
            for widget in (name, words, view):
                column.addWidget(widget)
            self._column.addWidget(frame)
            self.cards[row.name], self._frames[row.name] = view, frame
        return self.cards[row.name]
