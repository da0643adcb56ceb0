"""What is asked for when a fit is looked at: context, cache type, layers on graphics devices."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.chat.settings.settings import CACHE_TYPE_NAMES
from app.engine.planning.fit import LEAST_CONTEXT, Fit
from app.engine.planning.placement import CONTEXT_STEP
from app.engine.protocol.loading_messages import LoadOptions
from ui.look.theme import Theme
from ui.settings.fields import ListField, NumberField
from ui.widgets.slider import Slider

FIELD_PX: Final = 168
LABEL_PX: Final = 120
STACK_BELOW_PX: Final = 440
STEPS_PER_DOUBLING: Final = 4
MIXED: Final = "mixed"


def context_stops(n_ctx_train: int) -> list[int]:
    """Contexts that the slider stops at: four for each doubling, and what the weights were
    trained for.

    >>> context_stops(2048)
    [512, 768, 1024, 1280, 1536, 1792, 2048]
    """
    stops, size = set(), float(LEAST_CONTEXT)
    while size < n_ctx_train:
        stops.add(max(round(size / CONTEXT_STEP), 1) * CONTEXT_STEP)
        size *= 2 ** (1 / STEPS_PER_DOUBLING)
    return sorted({stop for stop in stops if stop <= n_ctx_train} | {max(n_ctx_train, 1)})


class FitWish(QWidget):
    """The fields. `changed` carries the options that are asked for now."""

    changed = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._options = LoadOptions()
        self._stops = context_stops(4096)
        self._n_ctx = self._n_layers = self._n_gpu_layers = 0
        self.setObjectName("fit_wish")
        self._title = QLabel("What if", self)
        # In the order in which Tab goes through them.
        self.context_slider = Slider(self)
        self.context = _number(0, 1024, self)
        self.cache = ListField(theme, [(name, name) for name in CACHE_TYPE_NAMES], self)
        self.layers_slider = Slider(self)
        self.layers = _number(-1, 1, self)
        self._build()
        theme.changed.connect(self._arrange)
        theme.font(self._title, Theme.font_small, QFont.Weight.DemiBold)
        theme.space(self._column, 8, margins=0)
        for slider in (self.context_slider, self.layers_slider):
            theme.at_least(slider, height=22)
        for field in (self.context, self.cache, self.layers):
            theme.size(field, FIELD_PX)
        self._arrange()

    def _build(self) -> None:
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._title)
        self._rows: list[tuple[QLabel, QBoxLayout]] = []
        self._add_row("Context window", "fit_context", self.context_slider, self.context)
        self._add_row("KV cache type", "fit_cache", None, self.cache)
        self._layer_label = self._add_row(
            "Layers on GPU", "fit_layers", self.layers_slider, self.layers
        )
        self.context_slider.valueChanged.connect(self._on_context_slid)
        self.context.changed_by_user.connect(self._on_context_typed)
        self.cache.changed_by_user.connect(self._on_cache)
        self.layers_slider.valueChanged.connect(self._on_layers_slid)
        self.layers.changed_by_user.connect(self._on_layers_typed)

    def _add_row(self, text: str, name: str, slider: Slider | None, field: QWidget) -> QLabel:
        label = QLabel(text, self)
        label.setBuddy(field)
        field.setObjectName(name)
        field.setAccessibleName(text)
        control = QHBoxLayout()
        self._theme.space(control, 12)
        self._theme.font(label, Theme.font_small)
        if slider is not None:
            slider.setOrientation(Qt.Orientation.Horizontal)
            slider.setObjectName(f"{name}_slider")
            slider.setAccessibleName(text)
            control.addWidget(slider, 1)
        else:
            control.addStretch(1)
        control.addWidget(field)
        row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        row.addWidget(label)
        row.addLayout(control, 1)
        self._column.addLayout(row)
        self._rows.append((label, row))
        return label

    # --- showing --------------------------------------------------------------------------------

    @property
    def options(self) -> LoadOptions:
        return self._options

    def show_options(self, options: LoadOptions) -> None:
        """As asked for from elsewhere; nobody is told."""
        self._options = options
        self._show()

    def show_fit(self, fit: Fit) -> None:
        """What came of it: the range of the sliders, and what “automatic” has become."""
        self._stops = context_stops(fit.n_ctx_train or 4096)
        self.context.setPlaceholderText(f"Automatic: {fit.n_ctx:,}" if fit.n_ctx else "Automatic")
        has_graphics = len(fit.devices) > 1
        for widget in (self._layer_label, self.layers_slider, self.layers):
            widget.setVisible(has_graphics)
        self.layers.setPlaceholderText(f"Automatic: {fit.n_gpu_layers}")
        self._n_ctx, self._n_layers = fit.n_ctx, fit.n_layers
        self._n_gpu_layers = fit.n_gpu_layers
        self._show()

    def _show(self) -> None:
        options = self._options
        self.context.show_value(options.n_ctx or 0)
        n_ctx = options.n_ctx or self._n_ctx
        nearest = min(range(len(self._stops)), key=lambda at: abs(self._stops[at] - n_ctx))
        _show_on(self.context_slider, len(self._stops) - 1, nearest)
        self.context_slider.setAccessibleDescription(f"{n_ctx:,} tokens")
        is_mixed = options.type_k != options.type_v
        at = self.cache.findData(MIXED)
        if is_mixed and at < 0:
            self.cache.addItem(f"{options.type_k} and {options.type_v}", MIXED)
        elif not is_mixed and at >= 0:
            self.cache.removeItem(at)
        self.cache.show_value(MIXED if is_mixed else options.type_k)
        layers = options.n_gpu_layers
        self.layers.show_value(-1 if layers is None else layers)
        shown = self._n_gpu_layers if layers is None else layers
        _show_on(self.layers_slider, self._n_layers, shown)
        self.layers_slider.setAccessibleDescription(f"{shown} of {self._n_layers} layers")

    # --- asking ---------------------------------------------------------------------------------

    def _ask(self, **values: Any) -> None:
        options = msgspec.structs.replace(self._options, **values)
        if options != self._options:
            self._options = options
            self._show()
            self.changed.emit(options)

    def _on_context_slid(self, at: int) -> None:
        self._ask(n_ctx=self._stops[at])

    def _on_context_typed(self, value: object) -> None:
        if isinstance(value, int):
            self._ask(n_ctx=min(max(value, CONTEXT_STEP), 1 << 24) if value > 0 else None)
        else:
            self._show()

    def _on_cache(self, value: object) -> None:
        if isinstance(value, str) and value != MIXED:
            self._ask(type_k=value, type_v=value)

    def _on_layers_slid(self, layers: int) -> None:
        self._ask(n_gpu_layers=layers)

    def _on_layers_typed(self, value: object) -> None:
        if isinstance(value, int):
            self._ask(n_gpu_layers=None if value < 0 else min(value, self._n_layers))
        else:
            self._show()

    # --- size -----------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """A label beside its control where there is room, else above it."""
        px = self._theme.px
        is_stacked = self.width() < px(STACK_BELOW_PX)
        direction = QBoxLayout.Direction
        for label, row in self._rows:
            row.setDirection(direction.TopToBottom if is_stacked else direction.LeftToRight)
            row.setSpacing(px(4 if is_stacked else 12))
            label.setMinimumWidth(0 if is_stacked else px(LABEL_PX))


def _number(automatic: int, step: int, parent: QWidget) -> NumberField:
    return NumberField(
        is_whole=True, step=step, automatic=automatic, placeholder="Automatic", parent=parent
    )


def _show_on(slider: Slider, most: int, value: int) -> None:
    was_blocked = slider.blockSignals(True)
    slider.setRange(0, max(most, 0))
    slider.setValue(value)
    slider.blockSignals(was_blocked)
