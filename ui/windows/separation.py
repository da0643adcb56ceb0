"""How well a control vector tells its two groups apart, layer by layer: a bar each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QRectF, QSize
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.look.theme import Theme
from ui.widgets.kit import show_tip

HEIGHT_PX: Final = 44
CHANCE: Final = 0.5
TIP: Final = "Layer {layer}: {share:.0%} of the examples lie on their own group's side"


class Separation(QWidget):
    """Bars grow from what chance gives (half) to all; the tooltip says which layer is meant."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._layers: tuple[float, ...] = ()
        self.setObjectName("separation")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def show_layers(self, layers: Sequence[float]) -> None:
        """`layers`: of the layers from 1 on."""
        self._layers = tuple(layers)
        self.setVisible(bool(layers))
        if layers:
            best = max(range(len(layers)), key=layers.__getitem__)
            tip = TIP.format(layer=best + 1, share=layers[best])
            self.setAccessibleName(f"Groups told apart by layer; best: {tip}")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self._theme.px(HEIGHT_PX))

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent) and self._layers:
            at = int(event.pos().x() * len(self._layers) / max(self.width(), 1))
            at = min(max(at, 0), len(self._layers) - 1)
            tip = TIP.format(layer=at + 1, share=self._layers[at])
            show_tip(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._layers:
            return
        painter, colors = QPainter(self), self._theme.colors
        words = f"Told apart, layers 1 to {len(self._layers)}"
        painter.setFont(self._theme.font_small())
        line = painter.fontMetrics().height()
        painter.setPen(colors.dim)
        painter.drawText(0, painter.fontMetrics().ascent(), words)
        room = self.height() - line - 2
        step = self.width() / len(self._layers)
        for at, share in enumerate(self._layers):
            height = max((share - CHANCE) / (1 - CHANCE), 0.0) * room
            bar = QRectF(at * step, self.height() - height, max(step - 2, 1.0), height)
            painter.fillRect(bar, colors.accent)
        base = QRectF(0, self.height() - 1, self.width(), 1)
        painter.fillRect(base, colors.line)
