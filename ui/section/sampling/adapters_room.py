"""The adapters of the open chat: LoRA and control vectors, each with a scale. It follows what
counts; what is changed here counts for this chat, from the next reply on."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.chat.events import (
    ConversationOpened,
    EngineStateChanged,
    LevelsChanged,
    SettingsChanged,
    VectorsListed,
)
from app.chat.settings.settings import as_stored
from ui.section.card import Card, small_label
from ui.section.card_column import CardColumn
from ui.section.panel import Panel, Tools
from ui.settings.adapter_field import AdapterField, Kind
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import push_button

LORAS: Final = "Small files that change some of the model's weights. A scale of 0 is off."
VECTORS: Final = (
    "A direction that is added to the residual stream behind each layer. Steering doesn't work on "
    "every prompt: some go the other way (Tan et al. 2024). Compare with and without."
)
WHENCE: Final = {
    "app": "App default",
    "weights": "From the model's defaults",
    "chat": "Set for this chat",
}


class AdaptersRoom(Panel):
    title = "Adapters"
    ability = "adapters"
    follows_token = False

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self._desk = desk = tools.desk
        self._is_listed = False
        self.setObjectName("adapters_room")
        self.fields: dict[Kind, AdapterField] = {}
        self.whence: dict[Kind, QLabel] = {}
        self.resets: dict[Kind, QPushButton] = {}
        self.area = CardColumn(self)
        self.compare = push_button(
            "Reply with and without",
            self,
            "with_without_button",
            kind="primary",
            hint="Two versions of the last reply, with the same seed",
            act=desk.with_without.ask,
        )
        self.make = push_button(
            "Make a control vector…",
            self,
            "make_vector_button",
            hint="From two groups of example prompts",
            act=desk.vectors.show,
        )
        acts = QWidget(self)
        policy = acts.sizePolicy()
        policy.setHeightForWidth(True)
        acts.setSizePolicy(policy)
        flow = FlowLayout(acts)
        flow.addWidget(self.compare)
        flow.addWidget(self.make)
        self.area.fill(
            acts,
            self._card("control_vectors", "Control vectors", VECTORS),
            self._card("loras", "LoRA adapters", LORAS),
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.area)
        bridge = tools.bridge
        bridge.on(
            (SettingsChanged, LevelsChanged, ConversationOpened, EngineStateChanged), self._follow
        )
        bridge.on(VectorsListed, self._on_vectors)
        self._theme.space(self.area.rows, 8)
        self._theme.space(flow, 8)

    def _card(self, name: Kind, title: str, words: str) -> Card:
        card = Card(self._theme, title, self)
        card.setObjectName(f"card_{name}")
        vectors = self._desk.vectors
        field = AdapterField(
            self._theme,
            name,
            card,
            name_of=vectors.name_of,
            offer=(lambda: [(v.path, v.name) for v in vectors.all])
            if name == "control_vectors"
            else (lambda: ()),
        )
        field.changed_by_user.connect(lambda value: self._change(name, value))
        self.fields[name] = field
        card.body.addWidget(small_label(words, card))
        card.body.addWidget(field)
        row = QHBoxLayout()
        whence = small_label("", card, f"whence_{name}")
        reset = push_button(
            "Reset",
            card,
            f"reset_{name}",
            kind="quiet",
            spoken=f"Reset {title} to the value below this chat",
            act=lambda: self._desk.levels.reset("chat", name),
        )
        row.addWidget(whence, 1)
        row.addWidget(reset)
        card.body.addLayout(row)
        self._theme.space(row, 6)
        self.whence[name] = whence
        self.resets[name] = reset
        return card

    def set_active(self, is_active: bool) -> None:
        super().set_active(is_active)
        if is_active and not self._is_listed:
            self._is_listed = True
            self._desk.vectors.list()

    def _refresh_message(self) -> None:
        self._follow()

    def _on_vectors(self) -> None:
        for field in self.fields.values():
            field.show_names()

    def _follow(self) -> None:
        if not self._is_active:
            return
        resolved = self._desk.levels.resolved()
        for name, field in self.fields.items():
            field.show_value(getattr(resolved.settings, name))
            level = resolved.level_of(name)
            value = getattr(resolved.settings, name)
            words = WHENCE.get(level, "") if value or level == "chat" else ""
            self.whence[name].setText(words)
            self.whence[name].setVisible(bool(words))
            self.resets[name].setVisible(level == "chat")
        has_any = any(field.value() for field in self.fields.values())
        self.compare.setEnabled(has_any)

    def _change(self, name: Kind, value: object) -> None:
        self._desk.levels.change("chat", name, as_stored(value))
        self._follow()
