"""Every number of the chain that stands, typed or moved with a slider, and how it draws.

The four that people move most are there even where the chain lacks their stage: at values that
change nothing, which become a stage once they are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec
from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QGridLayout, QWidget

from app.chat.settings.resolved import IN_CHAIN
from app.chat.settings.sampler_links import Links, added, with_stage
from app.chat.settings.settings import SELECTING
from app.engine.protocol.bounds import BadSetting, Bounds
from app.engine.protocol.stage_rules import BIAS, RULES, check_stage
from app.engine.protocol.stages import (
    AdaptiveP,
    Dry,
    DynamicTemperature,
    LogitBias,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Stage,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.strict_reading import snake
from ui.look.theme import Theme
from ui.section.drag_number import DragNumber
from ui.section.sampling.stage_words import WORDS, words_of
from ui.section.term_label import term_label
from ui.shell.tab_order import put_in_order
from ui.widgets.combo import Combo
from ui.widgets.slider import Slider

SPANS: Final[dict[tuple[type[Stage], str], tuple[float, float, float]]] = {
    (Temperature, "t"): (0, 2, 0.05),
    (TopK, "k"): (0, 64, 1),
    (TopP, "p"): (0, 1, 0.01),
    (MinP, "p"): (0, 0.5, 0.01),
    (Typical, "p"): (0, 1, 0.01),
    (TopNSigma, "n"): (0, 5, 0.1),
    (Xtc, "probability"): (0, 1, 0.05),
    (Xtc, "threshold"): (0, 0.5, 0.01),
    (DynamicTemperature, "t"): (0, 2, 0.05),
    (DynamicTemperature, "spread"): (0, 2, 0.05),
    (DynamicTemperature, "exponent"): (0, 3, 0.1),
    (Penalties, "repeat"): (0.5, 2, 0.05),
    (Penalties, "last_n"): (-1, 256, 1),
    (Penalties, "frequency"): (-2, 2, 0.1),
    (Penalties, "presence"): (-2, 2, 0.1),
    (Dry, "multiplier"): (0, 3, 0.1),
    (Dry, "base"): (1, 4, 0.05),
    (Dry, "allowed_length"): (0, 10, 1),
    (Dry, "last_n"): (-1, 256, 1),
    (Mirostat, "tau"): (0, 10, 0.1),
    (Mirostat, "eta"): (0, 1, 0.01),
    (Mirostat, "m"): (2, 200, 1),
    (MirostatV2, "tau"): (0, 10, 0.1),
    (MirostatV2, "eta"): (0, 1, 0.01),
    (AdaptiveP, "target"): (0, 1, 0.05),
    (AdaptiveP, "decay"): (0, 0.99, 0.01),
}
"""Where a slider begins and ends, and its step; typed, more is possible."""

BIAS_SPAN: Final = (-20.0, 20.0, 0.5)
NEUTRAL: Final[tuple[Stage, ...]] = (TopK(0), TopP(1.0), MinP(0.0), Temperature(1.0))
MOST_BIASES: Final = 8
_NUMBER_PX: Final = 60
_INDENT_PX: Final = 10
_KINDS: Final = sorted(SELECTING, key=list(WORDS).index)


@dataclass(frozen=True, slots=True)
class Field:
    """One number: of the stage at `at`; of a logit bias the entry `bias`."""

    name: str
    label: str
    at: int
    attribute: str
    span: tuple[float, float, float]
    bounds: Bounds
    hint: str = ""
    bias: int | None = None

    def of(self, stage: Stage) -> float:
        if self.bias is not None:
            assert isinstance(stage, LogitBias)
            return stage.biases[self.bias].bias
        return float(getattr(stage, self.attribute))

    def put(self, stage: Stage, value: object) -> Stage:
        if self.bias is None:
            return msgspec.structs.replace(stage, **{self.attribute: value})
        assert isinstance(stage, LogitBias)
        biases = list(stage.biases)
        biases[self.bias] = msgspec.structs.replace(biases[self.bias], bias=value)
        return LogitBias(biases)


def offered(links: Links) -> Links:
    """The chain, with those of the four that it lacks."""
    for stage in NEUTRAL:
        if not any(link.is_on and type(link.stage) is type(stage) for link in links):
            links, _ = added(links, stage)
    return links


def without_neutral(links: Links, before: Links) -> Links:
    """Without those that still change nothing and are no part of the chain that stands."""
    there = [type(link.stage) for link in before if link.is_on]
    return tuple(
        link
        for link in links
        if not (link.is_on and link.stage in NEUTRAL and type(link.stage) not in there)
    )


def stages_in(links: Links) -> tuple[Stage, ...]:
    """What is on, the selecting one last."""
    return tuple(link.stage for link in links if link.is_on)


def fields_of(links: Links, name_of: Callable[[int], str]) -> Iterator[Field]:
    """The numbers of a chain, in its order. How many candidates a cut keeps at least is one only
    where it was set."""
    names: dict[str, int] = {}
    for at, link in enumerate(links):
        if not link.is_on:
            continue
        for field in _fields(at, link.stage, name_of):
            names[field.name] = count = names.get(field.name, 0) + 1
            yield field if count == 1 else replace(field, name=f"{field.name}_{count}")


def _fields(at: int, stage: Stage, name_of: Callable[[int], str]) -> Iterator[Field]:
    kind = type(stage)
    bounds = {name: most for name, _, most in RULES[kind].checks}
    plain = {pair: name for name, pair in IN_CHAIN.items()}
    for value in words_of(stage).values:
        span = SPANS.get((kind, value.attribute), (1, 20, 1))
        if value.attribute == "min_keep" and getattr(stage, "min_keep", 1) == 1:
            continue
        name = plain.get((kind, value.attribute), f"{snake(kind.__name__)}_{value.attribute}")
        label = "last tokens" if value.attribute == "last_n" else value.label
        yield Field(name, label, at, value.attribute, span, bounds[value.attribute], value.hint)
    if isinstance(stage, LogitBias):
        for number, entry in enumerate(stage.biases[:MOST_BIASES]):
            if not entry.ban:
                label = name_of(entry.token_id) if entry.token_id is not None else entry.text or ""
                yield Field(f"bias_{number}", label, at, "bias", BIAS_SPAN, BIAS, bias=number)


def _indent(label: QWidget, px: int) -> None:
    label.setContentsMargins(px, 0, 0, 0)


class LiveValues(QWidget):
    """`changed`: links that can be used. `refused`: why a typed value cannot; nothing: it can."""

    changed = Signal(object)
    refused = Signal(str)

    def __init__(self, theme: Theme, spoken: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._spoken = theme, spoken
        self._chain: Links = ()
        self.links: Links = ()
        self._fields: dict[str, Field] = {}
        self.numbers: dict[str, DragNumber] = {}
        self.sliders: dict[str, Slider] = {}
        self._name_of: Callable[[int], str] = lambda token_id: f"ID {token_id}"
        self.kind = Combo(theme, self)
        self.kind.setObjectName("live_select_kind")
        self.kind.setAccessibleName(f"{spoken}: token selection")
        self.kind.setMinimumContentsLength(10)
        for stage in _KINDS:
            self.kind.addItem(WORDS[stage].title, stage)
        self.kind.activated.connect(self._on_kind)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setColumnStretch(1, 1)
        self._rows: list[QWidget] = []
        theme.space(self._grid, (8, 2))

    # --- what there is to move ------------------------------------------------------------------

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The chain as it is moved."""
        return stages_in(self.links)

    @property
    def moved_links(self) -> Links:
        """The same as it could stand in the chat."""
        return without_neutral(self.links, self._chain)

    @property
    def is_moved(self) -> bool:
        return stages_in(self.moved_links) != stages_in(self._chain)

    def name_tokens(self, name_of: Callable[[int], str]) -> None:
        """How the tokens of a logit bias are called."""
        self._name_of = name_of

    def follow(self, chain: Links) -> None:
        """Take a chain over, without a word."""
        self._chain = chain
        self.show_links(offered(chain))

    def show_links(self, links: Links) -> None:
        self.links = links
        fields = {field.name: field for field in fields_of(links, self._name_of)}
        if fields != self._fields:
            self._fields = fields
            self._build()
        for field in fields.values():
            self.numbers[field.name].show_refused(False)
            self._show(field)
        self.kind.setCurrentIndex(_KINDS.index(type(links[-1].stage)))

    def _build(self) -> None:
        had = next((n for n, w in {**self.numbers}.items() if w.hasFocus()), "")
        for row in self._rows:
            row.hide()
            row.deleteLater()
        self._rows, self.numbers, self.sliders = [], {}, {}
        line, last = 0, -1
        for field in self._fields.values():
            stage = self.links[field.at].stage
            words = words_of(stage)
            is_alone = sum(each.at == field.at for each in self._fields.values()) == 1
            is_alone = is_alone and field.bias is None
            if field.at != last:
                last = field.at
                if isinstance(stage, SELECTING):
                    line = self._add_kind(line)
                elif not is_alone:
                    line = self._add_title(words.title, line)
            self._add(field, words.title if is_alone else field.label, line)
            line += 1
        if last != len(self.links) - 1:
            self._add_kind(line)
        self._put_in_order()
        if had in self.numbers:
            self.numbers[had].setFocus()

    def _put_in_order(self) -> None:
        """Tab goes from row to row; new rows come where the old ones were."""
        stops: list[QWidget] = []
        for name, field in self._fields.items():
            is_select = field.at == len(self.links) - 1
            if is_select and self.kind not in stops:
                stops.append(self.kind)
            stops += [self.sliders[name], self.numbers[name]]
        if self.kind not in stops:
            stops.append(self.kind)
        put_in_order(stops, self.kind)

    def _add_title(self, title: str, line: int) -> int:
        label = term_label(title, self, "small")
        self._grid.addWidget(label, line, 0, 1, 3)
        self._rows.append(label)
        return line + 1

    def _add_kind(self, line: int) -> int:
        label = term_label("Draw", self, "small")
        self._grid.addWidget(label, line, 0)
        self._grid.addWidget(self.kind, line, 1, 1, 2)
        self._rows.append(label)
        return line + 1

    def _add(self, field: Field, label: str, line: int) -> None:
        stage = self.links[field.at].stage
        words, (low, most, step) = words_of(stage), field.span
        title = term_label(label, self, "small")
        if label != words.title:  # one of several, below the stage's name
            self._theme.keep(title, _indent, _INDENT_PX)
        spoken = f"{self._spoken}: " + (
            label if label == words.title else f"{words.title}: {label}"
        )
        slider = Slider(Qt.Orientation.Horizontal, self)
        slider.setObjectName(f"live_slider_{field.name}")
        slider.setAccessibleName(f"{spoken}, slider")
        slider.setRange(0, round((most - low) / step))
        slider.setToolTip(words.sentence)
        slider.valueChanged.connect(partial(self._on_slider, field.name))
        number = DragNumber(
            is_whole=field.bounds.whole,
            step=step,
            bounds=(max(field.bounds.low, min(low, 0)), field.bounds.high),
            parent=self,
        )
        number.setObjectName(f"live_value_{field.name}")
        number.setAccessibleName(spoken)
        number.setToolTip(field.hint or words.sentence)
        number.changed_by_user.connect(partial(self._on_number, field.name))
        number.taken_back.connect(partial(self._take_back, field.name))
        number.setProperty("kind", "tightest")
        self._theme.at_least(slider, height=20)
        self._theme.size(number, _NUMBER_PX)
        self.sliders[field.name], self.numbers[field.name] = slider, number
        for column, widget in enumerate((title, slider, number)):
            self._grid.addWidget(widget, line, column)
            self._rows.append(widget)

    # --- values ---------------------------------------------------------------------------------

    def value(self, name: str) -> float:
        field = self._fields[name]
        return field.of(self.links[field.at].stage)

    def _show(self, field: Field) -> None:
        low, _, step = field.span
        value = field.of(self.links[field.at].stage)
        number = self.numbers[field.name]
        with QSignalBlocker(self.sliders[field.name]):
            self.sliders[field.name].setValue(round((value - low) / step))
        if not number.is_dragging:
            number.show_value(int(value) if field.bounds.whole else value)

    def _on_slider(self, name: str, at: int) -> None:
        field = self._fields[name]
        low, _, step = field.span
        value = round(low + at * step, 6)
        self._take(name, int(value) if field.bounds.whole else value)

    def _on_number(self, name: str, value: object) -> None:
        self._take(name, value)

    def _take_back(self, name: str) -> None:
        self.numbers[name].show_refused(False)
        self.refused.emit("")
        self._show(self._fields[name])

    def _take(self, name: str, value: object) -> None:
        field = self._fields[name]
        stage = field.put(self.links[field.at].stage, value)
        try:
            check_stage(stage, "")
        except BadSetting as refused:
            self.numbers[name].show_refused(True)
            self.refused.emit(refused.sentence)
            return
        self.numbers[name].show_refused(False)
        self.refused.emit("")
        self.links = with_stage(self.links, field.at, stage)
        self._show(field)
        self.changed.emit(self.links)

    def _on_kind(self, at: int) -> None:
        """Another way to select; the one that is there keeps its values."""
        kind = _KINDS[at]
        if kind is not type(self.links[-1].stage):
            self.refused.emit("")
            self.show_links(with_stage(self.links, len(self.links) - 1, kind()))
            self.changed.emit(self.links)
