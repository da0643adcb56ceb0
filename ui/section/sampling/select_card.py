"""The last card of the chain: how the token is selected, and the seed of its chance."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.chat.settings.sampler_links import Link
from app.chat.settings.settings import SELECTING
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.stage_rules import MAX_SEED, check_seed
from ui.look.theme import Theme
from ui.section.drag_number import DragNumber
from ui.section.sampling.bias_editor import Tokenize
from ui.section.sampling.stage_card import StageCard
from ui.section.sampling.stage_words import LEVELS, WORDS
from ui.section.term_label import term_label
from ui.widgets.combo import Combo
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import push_button

SEED_PX: Final = 124


class SelectCard(StageCard):
    """`seed_changed`: a seed that can be used, or None for a fresh one each time."""

    seed_changed = Signal(object)

    has_value_in_head: ClassVar[bool] = False

    def __init__(
        self,
        theme: Theme,
        link: Link,
        tokenize: Tokenize,
        *,
        is_editable: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        self._reply_seed: int | None = None
        self._seed: int | None = None
        self.seed = DragNumber(
            is_whole=True,
            step=1,
            automatic=None,
            placeholder="Random",
            bounds=(0, MAX_SEED),
        )
        super().__init__(theme, link, tokenize, is_editable=is_editable, parent=parent)

    def _build(self, tokenize: Tokenize) -> None:
        super()._build(tokenize)
        self.kind = Combo(self._theme, self)
        self.kind.setObjectName("select_kind")
        self.kind.setMinimumContentsLength(10)  # “By probability” at every size
        self.kind.setAccessibleName("Token selection")
        for stage in sorted(SELECTING, key=lambda each: list(WORDS).index(each)):
            self.kind.addItem(WORDS[stage].title, stage)
        self.kind.setCurrentText(self._words.title)
        self.kind.setVisible(self._is_editable)
        self.kind.activated.connect(self._on_kind)
        self.seed.setParent(self)
        self.seed.setObjectName("seed_field" if self._is_editable else "reply_seed_field")
        self.seed.setAccessibleName("Random seed. Leave empty for a new one each reply")
        self.seed.setEnabled(self._is_editable)
        self.seed.changed_by_user.connect(self._on_seed)
        self.seed.taken_back.connect(partial(self._take_back, "seed"))
        self.again_button = push_button(
            "", self, "same_seed_button", act=lambda: self.seed_changed.emit(self._reply_seed)
        )
        seed = QWidget(self)
        row = QHBoxLayout(seed)
        row.setContentsMargins(0, 0, 0, 0)
        label = term_label("Seed", seed, "small")
        label.setBuddy(self.seed)
        row.addWidget(label)
        row.addWidget(self.seed)
        box = QWidget(self)
        policy = box.sizePolicy()
        policy.setHeightForWidth(True)
        box.setSizePolicy(policy)
        self._seed_flow = FlowLayout(box)
        self._theme.space(self._seed_flow, 6)
        self._theme.size(self.seed, SEED_PX)
        self._theme.sheet(self.again_button, _again_sheet)
        self._seed_flow.addWidget(seed)
        self._seed_flow.addWidget(self.again_button)
        self.head.insertWidget(2, self.kind)
        self.column.insertWidget(1, box)

    def _first_stops(self) -> list[QWidget]:
        values = list(self.fields.values())
        return [self.kind, self.seed, self.again_button, *values]

    def show_seed(self, seed: int | None, level: str, reply_seed: int | None) -> None:
        """What the next reply is drawn with, and the seed of the reply that is looked at."""
        self._seed, self._reply_seed = seed, reply_seed
        if "seed" not in self._refused and not self.seed.is_dragging:
            self.seed.show_value(seed)
        words = LEVELS.get(level, "")
        self.seed.setToolTip(
            f"{f'Set by {words}. ' if words else ''}Leave empty for a new seed each reply, saved "
            "with it."
        )
        self.again_button.setText(f"Reuse seed {reply_seed}")
        self.again_button.setAccessibleName(f"Reuse this reply's seed {reply_seed}")
        is_offered = self._is_editable and reply_seed is not None and reply_seed != seed
        self.again_button.setVisible(is_offered)

    def _on_kind(self, at: int) -> None:
        """Another way to select; the one that is there keeps its values."""
        kind = self.kind.itemData(at)
        if kind is not type(self._link.stage):
            self.changed.emit(kind())

    def _field_of(self, attribute: str) -> DragNumber | None:
        return self.seed if attribute == "seed" else super()._field_of(attribute)

    def _take_back(self, attribute: str) -> None:
        if attribute != "seed":
            super()._take_back(attribute)
        else:
            self.refuse("seed", "")
            self.seed.show_value(self._seed)

    def _on_seed(self, value: object) -> None:
        try:
            check_seed(value)
        except BadSetting as refused:
            self.refuse("seed", refused.sentence)
        else:
            self.refuse("seed", "")
            self.seed_changed.emit(value)


def _again_sheet(theme: Theme) -> str:
    return (
        f"QPushButton {{ padding: {theme.px(3)}px {theme.px(8)}px;"
        f" font-size: {theme.font_small().pixelSize()}px; }}"
    )
