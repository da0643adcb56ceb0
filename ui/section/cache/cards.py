"""Cards of the cache panel that stand for themselves: sizes, one step, and the context policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from PySide6.QtCore import Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.amounts import bytes_words
from app.chat.settings.context_policies import POLICIES
from app.chat.surroundings import ALWAYS
from app.engine.protocol.cache_messages import CacheSlot, StepMeasured
from app.engine.protocol.loading_messages import Loaded
from app.insight.cache.sizes import formula
from models.records import ConversationKind
from ui.look.theme import Theme
from ui.section.cache import words as words
from ui.section.figure_card import FigureCard
from ui.widgets.combo import Combo

if TYPE_CHECKING:
    from app.chat.desk import Desk

TITLE: Final = "When the context window is full"
CHIP_PX: Final = 28
MEASURE: Final = "Measure now"
NOT_YET: Final = "Time saved by the cache on the next token, measured on your computer."
READING: Final = "Processing everything again in a separate context…"
STOPPED: Final = "Measurement stopped."
ONE_STATE: Final = "This model keeps a single state, no matter how many tokens came before."


class SmallButton(QPushButton):
    """`hint` is its accessible name too."""

    def __init__(self, theme: Theme, text: str, name: str, hint: str, parent: QWidget) -> None:
        super().__init__(text, parent)
        self.setObjectName(name)
        self.setProperty("kind", "chip")
        self.setToolTip(hint)
        self.setAccessibleName(hint or text)
        theme.font(self, Theme.font_small)
        theme.pill(self, CHIP_PX)


class SizeCard(FigureCard):
    """Bytes of one token by the header, what all of them take, and what llama.cpp says."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(theme, "Per token", parent)
        self.figure.setObjectName("cache_per_token")
        self.formulas = [self.add_row(f"cache_formula_{number}", "") for number in range(3)]
        self.types = self.add_row("cache_types", "K type · V type")
        self.heads = self.add_row("cache_heads", "heads of K and V in each layer")
        self.flash = self.add_row("cache_flash", "flash attention")
        self.windows = self.add_row("cache_window", "")
        self.full = self.add_row("cache_full", "")
        self.allocated = self.add_row("cache_allocated", "measured at load")
        self.copy_caption = self.add_caption("cache_copy_caption")

    def show_sizes(self, loaded: Loaded, slot: CacheSlot | None) -> None:
        """`slot`: where the open chat has cells."""
        shape, per_token = loaded.cache, loaded.kv_bytes_per_token
        lines = formula(shape) if shape is not None else []
        groups = shape.layers if shape is not None else []
        is_said = len(lines) == 1 or not per_token  # by the one line of the formula
        self.figure.set_text("" if is_said else bytes_words(per_token))
        for number, row in enumerate(self.formulas):
            if number < len(lines):
                group = groups[number]
                size = group.n_layers * (group.k_bytes + group.v_bytes)
                row.show(bytes_words(size), lines[number])
            else:
                row.show("")
        self.types.show(f"{loaded.type_k} · {loaded.type_v}")
        n_heads = sorted({group.n_head_kv for group in groups if group.n_head_kv})
        self.heads.show(" or ".join(map(str, n_heads)))
        self.flash.show("on" if loaded.flash_attention else "off")
        which, width = ("", "")
        if shape is not None and shape.n_window_layers:
            which, width = words.window_text(shape)
        self.windows.show(width, which)
        full = bytes_words(per_token * loaded.n_ctx) if per_token else ""
        self.full.show(full, f"the full window of {loaded.n_ctx:,} tokens")
        allocated = sum(part.size_bytes for part in loaded.memory if part.what == "kv")
        self.allocated.show(bytes_words(allocated) if allocated else "")
        self._show_copy(loaded, slot)

    def _show_copy(self, loaded: Loaded, slot: CacheSlot | None) -> None:
        sentences = []
        if loaded.cache is not None and loaded.cache.is_state:
            sentences.append(ONE_STATE)
        if slot is not None:
            n_tokens = slot.token_ids.shape[0]
            native = words.copy_text(loaded.cache, n_tokens, slot.first_position, slot.state_bytes)
            sentences.append(f"This chat’s {words.tokens_text(n_tokens)}, copied: {native}.")
        self.copy_caption.setText(" ".join(sentences))
        self.copy_caption.setVisible(bool(sentences))


class StepCard(FigureCard):
    """Times the next token of a chat, when a button is pressed. `ended`: it is over. `measured`:
    what it told of the chat that is open."""

    ended = Signal()
    measured = Signal(object)

    def __init__(self, theme: Theme, desk: Desk, parent: QWidget) -> None:
        super().__init__(theme, "One step", parent)
        self._desk = desk
        self.is_measuring = False
        self._measured_of = ""
        self.with_cache = self.add_row("cache_step_with", "with the cache")
        self.without = self.add_row("cache_step_without", "without the cache")
        self.caption = self.add_caption("cache_step_caption")
        self.caption.setText(NOT_YET)
        self.button = SmallButton(
            theme,
            MEASURE,
            "measure_button",
            "Time the next token with the cache and without it",
            self,
        )
        row = QHBoxLayout()
        row.addWidget(self.button)
        row.addStretch(1)
        self.body.addLayout(row)
        self.button.clicked.connect(self._on_button)

    def follow(self) -> None:
        """What was measured of another chat, or of other weights, is no figure of this one."""
        if not self.is_measuring and self._measured_of not in ("", self._of()):
            self._measured_of = ""
            self.with_cache.show("")
            self.without.show("")
            self.caption.setText(NOT_YET)

    def _of(self) -> str:
        loaded = self._desk.loader.state.loaded
        return f"{self._desk.shelf.open.id} {loaded.path if loaded is not None else ''}"

    def set_possible(self, is_possible: bool) -> None:
        self.button.setEnabled(is_possible or self.is_measuring)

    def _on_button(self) -> None:
        if self.is_measuring:
            self._desk.cache.stop_measuring()
            self._end(STOPPED)
            return
        self.is_measuring, self._measured_of = True, self._of()
        self.button.setText("Stop measuring")
        self.caption.setText(READING)
        # Where it is about another chat or other weights by now, it has ended all the same.
        self._desk.cache.measure(self._desk.shelf.open.id, self._take, self._end, still=ALWAYS)

    def _take(self, measured: StepMeasured) -> None:
        if self._measured_of != self._of():
            self._end(NOT_YET)
            return
        self.with_cache.show(words.ms_text(measured.step))
        self.without.show(words.ms_text(measured.replay))
        self._end(words.measured_text(measured))
        self.measured.emit(measured)

    def _end(self, sentence: str) -> None:
        self.is_measuring = False
        self.button.setText(MEASURE)
        self.caption.setText(sentence)
        self.ended.emit()


class PolicyCard(FigureCard):
    """What happens with a prompt that is too long, and what would happen now."""

    def __init__(self, theme: Theme, desk: Desk, parent: QWidget) -> None:
        super().__init__(theme, TITLE, parent)
        self._desk = desk
        self._used = self._size = self._n_cut = 0
        self.choice = Combo(theme, self)
        self.choice.setObjectName("cache_policy")
        self.choice.setAccessibleName(TITLE)
        for value, text in POLICIES:
            self.choice.addItem(text, value)
        self.body.addWidget(self.choice)
        self.caption = self.add_caption("cache_policy_caption")
        self.choice.activated.connect(self._on_chosen)
        theme.font(self.choice, Theme.font_small)

    def set_count(self, used: int, size: int, n_cut: int) -> None:
        """The next prompt would have so many of `size` tokens, without `n_cut` messages (of a text:
        without its beginning)."""
        self._used, self._size, self._n_cut = used, size, n_cut

    def show_policy(self) -> None:
        resolved = self._desk.levels.resolved()
        policy = resolved.settings.context_policy
        self.choice.setCurrentIndex(max(self.choice.findData(policy), 0))
        self._offer_summaries()
        level = resolved.level_of("context_policy")
        where = {"weights": "Set for this model. ", "chat": "Set for this chat. "}.get(level, "")
        is_text = self._desk.shelf.open.kind is ConversationKind.TEXT
        counted = (self._used, self._size, self._n_cut)
        self.caption.setText(where + words.policy_text(policy, *counted, is_text=is_text))

    def _offer_summaries(self) -> None:
        """Greyed out in a text, with the reason."""
        is_text = self._desk.shelf.open.kind is ConversationKind.TEXT
        item = cast("QStandardItemModel", self.choice.model()).item(
            self.choice.findData("summarize")
        )
        item.setEnabled(not is_text)
        item.setToolTip(words.NO_SUMMARY if is_text else "")

    def _on_chosen(self, at: int) -> None:
        """Where it counts now, there it is changed."""
        self._desk.levels.change_where_it_counts("context_policy", self.choice.itemData(at))
