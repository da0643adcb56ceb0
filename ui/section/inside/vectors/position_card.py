"""*Position*: how this model knows the order of words, and what the order is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.chat.inspection.inside import Seen
from app.engine.protocol.embedding_messages import Rotation, Rotations
from app.insight.inside.position import Position, Rope, rope_of, rotated
from app.insight.inside.waves import hands, unrotated
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.vectors.rotation_views import Dials, WaveView
from ui.section.inside.vectors.word_swap import WordSwap
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.widgets.combo import Combo
from ui.widgets.kit import plain_label

HELP: Final = (
    "Attention alone would read a text as a heap of words. RoPE turns each pair of dimensions of a "
    "query and a key like the hand of a clock, by an angle that grows with the position: fast for "
    "the first pairs, slowly for the last. When the two are multiplied, only the difference of the "
    "angles is left, so a head sees how far apart two words are. In the picture each row is a pair "
    "and each column a position; the token that was read is framed."
)
LEAST_SHOWN: Final = 128
"""Positions: a short text alone would show no wave."""
WAVES: Final = (
    "Positions 0 to {last:,} from left to right, pairs 0 (fastest) to {slowest} from top to "
    "bottom. The frame marks this token."
)
CHECK: Final = "Computed with the formula, the query matches the model’s to within {off:.0e}."
KEY_NOTE: Final = "Keys are recorded after the rotation; what was before is computed from that."


def layers_said(layers: list[int]) -> str:
    """
    >>> layers_said([0, 1, 2, 5, 7, 8]), layers_said([4])
    ('Layers 0–2, 5, 7–8', 'Layer 4')
    """
    parts: list[list[int]] = []
    for layer in sorted(layers):
        if parts and layer == parts[-1][1] + 1:
            parts[-1][1] = layer
        else:
            parts.append([layer, layer])
    said = [f"{one}" if one == other else f"{one}–{other}" for one, other in parts]
    return f"{'Layers' if len(layers) > 1 else 'Layer'} {', '.join(said)}"


def rotations_said(told: Rotations, d_head: int | None, position: Position | None) -> str:
    """What all rotating layers have in common in the first line, then what differs."""
    groups = told.rotations
    shapes = [_shape(each, d_head) for each in groups]
    is_all = len(groups[0].layers) == told.n_layer
    if len(groups) == 1:
        where = "" if is_all else f" in {layers_said(groups[0].layers).lower()}"
        return f"RoPE{where}: {shapes[0]}, {_base(groups[0], position)}."
    if len(set(shapes)) == 1:
        lines = [f"RoPE: {shapes[0]}."]
        lines += [f"{layers_said(each.layers)}: {_base(each, position)}." for each in groups]
        return "\n".join(lines)
    named = zip(groups, shapes, strict=True)
    lines = [f"{layers_said(e.layers)}: {shape}, {_base(e, position)}." for e, shape in named]
    return "\n".join(["RoPE.", *lines])


def _shape(told: Rotation, d_head: int | None) -> str:
    n_dims = told.n_dims
    dims = f"all {n_dims}" if d_head in (None, n_dims) else f"{n_dims} of {d_head}"
    return f"{dims} dimensions of a head in {n_dims // 2} pairs, {_scaling(told)}"


def _base(told: Rotation, position: Position | None) -> str:
    base = f"base {told.freq_base:,.0f}"
    if not told.is_window:
        return base
    window = position.window if position is not None else 0
    return f"{base}, window of {window:,} tokens" if window else f"{base}, window"


def _scaling(told: Rotation) -> str:
    factor = 1 / told.freq_scale if told.freq_scale > 0 else 1.0
    if told.factors.size:
        return "slow pairs slowed down (a factor each)"
    if told.ext_factor:
        return f"YaRN × {factor:g}"
    return f"positions ÷ {factor:g}" if abs(factor - 1) > 1e-6 else "no scaling"


class PositionCard(InsideCard):
    title_words = "Position"
    name = "position"
    wants = ("q_before", "q_after", "k_after")
    help_words = HELP

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        super().__init__(tools, view, parent)
        theme = tools.theme
        self._asked_for: object = self
        self._told: Rotations | None = None
        self._position: Position | None = None
        self.words = small_label("", self.content)
        self.words.setObjectName("inside_position_words")
        self.waves = WaveView(theme, self.content)
        self.waves_note = small_label("", self.content)
        self.layer_box = self._box("layer")
        self.head_box = self._box("head")
        self.dials = Dials(theme, self.content)
        self.note = small_label("", self.content)
        self.note.setObjectName("inside_position_note")
        self.swap_title = plain_label("Swap two words", self.content)
        self.swap = WordSwap(tools, view, self.content)
        self._lay_out()
        view.head_changed.connect(self.refresh)
        view.layer_changed.connect(self.refresh)

    def _box(self, name: str) -> Combo:
        box = Combo(self._tools.theme, self.content)
        box.setObjectName(f"inside_position_{name}")
        box.setAccessibleName(name.capitalize())
        box.setMinimumContentsLength(6)
        self._tools.theme.font(box, Theme.font_small)
        box.activated.connect(lambda _: self._choose())
        return box

    def _lay_out(self) -> None:
        theme = self._tools.theme
        theme.font(self.swap_title, Theme.font_small, QFont.Weight.DemiBold)
        self.choice = QWidget(self.content)
        row = QHBoxLayout(self.choice)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.layer_box)
        row.addWidget(self.head_box)
        row.addStretch(1)
        theme.space(row, 6)
        for widget in (
            *(self.words, self.waves, self.waves_note, self.choice, self.dials, self.note),
            *(self.swap_title, self.swap),
        ):
            self.rows.addWidget(widget)

    # --- asking ---------------------------------------------------------------------------------

    def _ask(self) -> None:
        """How the loaded model does it: once while it is loaded."""
        desk = self._tools.desk
        loaded = desk.loader.loaded
        if loaded is self._asked_for:
            return
        self._asked_for, self._told, self._position = loaded, None, None

        def is_meant() -> bool:
            return loaded is self._asked_for

        desk.embedding.rotations(self._take_rotations, self._fail, still=is_meant)
        if loaded is not None:
            path = Path(loaded.path)
            desk.headers.position(path, self._take_position, lambda _: None, still=is_meant)

    def _take_rotations(self, told: Rotations) -> None:
        self._told = told
        self.refresh()

    def _take_position(self, position: Position) -> None:
        self._position = position
        self.refresh()

    def _fail(self, sentence: str) -> None:
        """The next look asks again."""
        self._asked_for = self
        self.words.setText(sentence)

    # --- what is shown --------------------------------------------------------------------------

    def show_figure(self, seen: Seen | None) -> None:
        self.figure.set_text("" if seen is None else f"position {seen.place:,}")

    def show_seen(self, seen: Seen) -> None:
        self._ask()
        self.words.setText(self._words(seen))
        self.swap.refresh()
        found = self._rotation()
        text = self.view.text
        for widget in (self.waves, self.waves_note, self.choice, self.dials):
            widget.setVisible(found is not None)
        self.note.setText("")
        if found is not None and text is not None:
            rope = rope_of(found)
            n_positions = max(len(text), LEAST_SHOWN)
            self.waves.show_rope(rope, n_positions, seen.place)
            slowest = max(rope.n_pairs - 1, 0)
            self.waves_note.setText(WAVES.format(last=n_positions - 1, slowest=slowest))
            self._show_dials(seen, rope)
        self.note.setVisible(bool(self.note.text()))

    def _words(self, seen: Seen) -> str:
        told, position = self._told, self._position
        if told is None:
            return self.words.text() if self._asked_for is self else "Reading how layers rotate…"
        if not told.rotations:
            said = position.sentence if position is not None else ""
            return said or told.sentence
        queries = seen.arrays.get("q_before")
        d_head = None if queries is None else int(queries.shape[-1])
        return rotations_said(told, d_head, position)

    def _rotation(self) -> Rotation | None:
        """Of the chosen layer."""
        told = self._told
        if told is None:
            return None
        layer = self._layer()
        return next((each for each in told.rotations if layer in each.layers), None)

    def _layer(self) -> int:
        """The chosen one; without a choice the first that rotates."""
        if self.view.layer is not None:
            return self.view.layer
        told = self._told
        return min((min(each.layers) for each in told.rotations), default=0) if told else 0

    def _show_dials(self, seen: Seen, rope: Rope) -> None:
        queries, turned = seen.arrays.get("q_before"), seen.arrays.get("q_after")
        keys = seen.arrays.get("k_after")
        layer, head = self._layer(), self.view.head or 0
        is_there = queries is not None and turned is not None and layer < len(queries)
        self.choice.setVisible(is_there)
        self.dials.setVisible(is_there)
        if not is_there or queries is None or turned is None:
            names = ("q_before", "q_after")
            reasons = (seen.missing[name] for name in names if name in seen.missing)
            self.note.setText(next(reasons, ""))
            return
        n_layer, n_head, d_head = queries.shape
        head = min(head, n_head - 1)
        self._fill(self.layer_box, "Layer", n_layer, layer)
        self._fill(self.head_box, "Head", n_head, head)
        before, after = _floats(queries[layer, head]), _floats(turned[layer, head])
        if rope.first_dim + rope.n_dims > d_head or not np.isfinite(before).all():
            self.dials.setVisible(False)
            return
        rows = [("query", hands(rope, before), hands(rope, after))]
        size = max(float(np.abs(after).max()), 1e-9)
        off = float(np.abs(rotated(rope, before, seen.place) - after).max()) / size
        notes = [CHECK.format(off=off)]
        if keys is not None and layer < len(keys):
            group = head * keys.shape[1] // n_head
            key = _floats(keys[layer, group])
            rows.append(("key", hands(rope, unrotated(rope, key, seen.place)), hands(rope, key)))
            notes.append(KEY_NOTE)
        self.dials.show_hands(rope, seen.place, rows)
        self.note.setText(" ".join(notes))

    def _fill(self, box: Combo, what: str, n: int, chosen: int) -> None:
        if box.count() != n:
            box.clear()
            box.addItems([f"{what} {at}" for at in range(n)])
        box.setCurrentIndex(chosen)

    def _choose(self) -> None:
        self.view.choose_head(self.layer_box.currentIndex(), self.head_box.currentIndex())


def _floats(values: Any) -> Any:
    return np.asarray(values, np.float32)
