"""Temperature, top-k, top-p and min-p, each typed or moved with a slider."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QGridLayout, QWidget

from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.stage_rules import RULES, check_stage
from app.engine.protocol.stages import MinP, Stage, Temperature, TopK, TopP
from app.insight.sampling.live import Values
from ui.look.theme import Theme
from ui.section.drag_number import DragNumber
from ui.section.sampling.stage_words import words_of
from ui.section.term_label import term_label
from ui.widgets.slider import Slider


@dataclass(frozen=True, slots=True)
class _Field:
    """The slider goes from 0 to `most` in steps of `step`; typed, more is possible."""

    name: str
    label: str
    kind: type[Stage]
    attribute: str
    step: float
    most: float
    is_whole: bool = False


FIELDS: Final = (
    _Field("temperature", "Temperature", Temperature, "t", 0.05, 2.0),
    _Field("top_k", "Top-k", TopK, "k", 1, 64, is_whole=True),
    _Field("top_p", "Top-p", TopP, "p", 0.01, 1.0),
    _Field("min_p", "Min-p", MinP, "p", 0.01, 0.5),
)
_NUMBER_PX: Final = 60


class LiveValues(QWidget):
    """`changed`: values that can be used. `refused`: why typed ones cannot; nothing: they can."""

    changed = Signal(object)
    refused = Signal(str)

    def __init__(self, theme: Theme, spoken: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.values = Values()
        self.numbers: dict[str, DragNumber] = {}
        self.sliders: dict[str, Slider] = {}
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        for row, field in enumerate(FIELDS):
            self._add(row, field, spoken)
        self._grid.setColumnStretch(1, 1)
        theme.space(self._grid, (8, 2))

    def _add(self, row: int, field: _Field, spoken: str) -> None:
        label = term_label(field.label, self, "small")
        slider = Slider(Qt.Orientation.Horizontal, self)
        slider.setObjectName(f"live_slider_{field.name}")
        slider.setAccessibleName(f"{spoken}: {field.label}, slider")
        slider.setRange(0, round(field.most / field.step))
        slider.setToolTip(words_of(field.kind()).sentence)
        slider.valueChanged.connect(partial(self._on_slider, field))
        (bounds,) = [b for name, _, b in RULES[field.kind].checks if name == field.attribute]
        number = DragNumber(
            is_whole=field.is_whole,
            step=field.step,
            bounds=(max(bounds.low, 0), bounds.high),
            parent=self,
        )
        number.taken_back.connect(partial(self._take_back, field))
        number.setObjectName(f"live_value_{field.name}")
        number.setAccessibleName(f"{spoken}: {field.label}")
        number.setToolTip(words_of(field.kind()).values[0].hint)
        number.changed_by_user.connect(partial(self._on_number, field))
        number.setProperty("kind", "tightest")
        self._theme.at_least(slider, height=20)
        self._theme.size(number, _NUMBER_PX)
        self.sliders[field.name], self.numbers[field.name] = slider, number
        self._grid.addWidget(label, row, 0)
        self._grid.addWidget(slider, row, 1)
        self._grid.addWidget(number, row, 2)

    def show_values(self, values: Values) -> None:
        """Take these over, without a word."""
        self.values = values
        for field in FIELDS:
            self.numbers[field.name].show_refused(False)
            self._show(field, getattr(values, field.name))

    def _show(self, field: _Field, value: float) -> None:
        with QSignalBlocker(self.sliders[field.name]):
            self.sliders[field.name].setValue(round(value / field.step))
        number = self.numbers[field.name]
        if not number.is_dragging:
            number.show_value(value)

    def _on_slider(self, field: _Field, at: int) -> None:
        value = at if field.is_whole else round(at * field.step, 6)
        self._take(field, value)

    def _on_number(self, field: _Field, value: object) -> None:
        try:
            check_stage(field.kind(**{field.attribute: value}), "")
        except BadSetting as refused:
            self.numbers[field.name].show_refused(True)
            self.refused.emit(refused.sentence)
        else:
            assert isinstance(value, int | float)
            self._take(field, value)

    def _take_back(self, field: _Field) -> None:
        self.numbers[field.name].show_refused(False)
        self.refused.emit("")
        self._show(field, getattr(self.values, field.name))

    def _take(self, field: _Field, value: float) -> None:
        self.numbers[field.name].show_refused(False)
        self.refused.emit("")
        self.values = replace(self.values, **{field.name: value})  # type: ignore[arg-type]
        self._show(field, value)
        self.changed.emit(self.values)
