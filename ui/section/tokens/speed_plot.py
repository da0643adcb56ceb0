"""Tokens per second over the time of a reply, as a line.

pyqtgraph takes the better part of a second and 50 MB to import (and numpy with it), so that happens
on a thread, when a plot is first on screen.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Sequence
from typing import Any, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QPen, QShowEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.widgets.kit import rest_timer

HEIGHT_PX = 96
_LABELS: Final = {"left": "tokens/s", "bottom": "seconds after the first token"}
DRAWN_MS = 1000
"""A line that grows is drawn at most so often."""


_is_imported = threading.Event()


def import_plots() -> None:
    """On the thread that can wait for it."""
    import pyqtgraph  # noqa: F401

    _is_imported.set()


class SpeedPlot(QWidget):
    """`show_speeds` takes (seconds after the first token, tokens/s)."""

    drawn = Signal()
    _imported = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._speeds: Sequence[tuple[float, float]] = ()
        self._view: Any = None
        self._box: Any = None
        self._curve: Any = None
        self.axes: dict[str, Any] = {}
        self._is_asked = False
        self._timer = rest_timer(self, self._draw, DRAWN_MS)
        self.setObjectName("speed_plot")
        self.setAccessibleName("Tokens per second over time")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._imported.connect(self._build, Qt.ConnectionType.QueuedConnection)
        theme.changed.connect(self._fit)
        self._fit()

    def show_speeds(self, speeds: Sequence[tuple[float, float]]) -> None:
        if speeds == self._speeds:
            return
        is_longer = bool(self._speeds) and bool(speeds)
        self._speeds = speeds
        if not is_longer:
            self._draw()
        elif not self._timer.isActive():
            self._timer.start()

    @property
    def points(self) -> list[tuple[float, float]]:
        """What the line goes through."""
        if self._curve is None:
            return []
        x, y = self._curve.getData()
        return [] if x is None else list(zip(x.tolist(), y.tolist(), strict=True))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._view is not None or self._is_asked:
            return
        self._is_asked = True
        if _is_imported.is_set():
            self._imported.emit()
        else:
            threading.Thread(target=self._import, name="plot-import", daemon=True).start()

    def _import(self) -> None:
        import_plots()
        with contextlib.suppress(RuntimeError):  # the plot may be gone by now
            self._imported.emit()

    def _build(self) -> None:
        if self._view is not None:
            return
        import pyqtgraph as pg

        # Not its PlotWidget: that brings menus and buttons, which are windows of their own.
        self._view = pg.GraphicsLayoutWidget(self)
        self._view.setBackground(None)
        self._view.setFrameShape(QFrame.Shape.NoFrame)
        self._view.setStyleSheet("background: transparent; border: none;")
        self._view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._view.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.axes = {side: pg.AxisItem(side) for side in _LABELS}
        self._box = pg.ViewBox(enableMouse=False, enableMenu=False)
        self._curve = pg.PlotCurveItem(antialias=True)
        self._box.addItem(self._curve)
        layout = self._view.ci
        layout.layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addItem(self.axes["left"], 0, 0)
        layout.addItem(self._box, 0, 1)
        layout.addItem(self.axes["bottom"], 1, 1)
        for axis in self.axes.values():
            axis.linkToView(self._box)
        self._column.addWidget(self._view)
        self._fit()
        self._draw()

    def _draw(self) -> None:
        self._timer.stop()
        self.setAccessibleDescription(described(self._speeds))
        if self._curve is None:
            return
        self._curve.setData([at for at, _ in self._speeds], [rate for _, rate in self._speeds])
        if self._speeds:
            top = max(rate for _, rate in self._speeds)
            self._box.setYRange(0.0, top, padding=0.08)
            self.axes["left"].setTickSpacing(step_below(top), step_below(top))
            self._box.setXRange(0.0, self._speeds[-1][0], padding=0.02)
        self.drawn.emit()

    def _fit(self) -> None:
        theme = self._theme
        self.setFixedHeight(theme.px(HEIGHT_PX))
        if self._view is None:
            return
        colors, font = theme.colors, theme.font_small()
        font.setPixelSize(max(8, theme.px(11)))
        for side, axis in self.axes.items():
            axis.setPen(QPen(QColor(colors.line), theme.px(1)))
            axis.setTextPen(QColor(colors.dim))
            axis.setTickFont(font)
            axis.setStyle(tickLength=-theme.px(3), tickTextOffset=theme.px(3), maxTickLevel=0)
            axis.setSIPrefixEnableRanges(())  # without it a line of under 1 s is told in ms
            axis.enableAutoSIPrefix(False)
            size = f"{font.pixelSize()}px"
            axis.setLabel(_LABELS[side], color=colors.dim, **{"font-size": size})
        # Half of the top tick's figure stands above the box.
        self._view.ci.layout.setContentsMargins(0, theme.px(6), 0, 0)
        self.axes["left"].setWidth(theme.px(46))
        self.axes["bottom"].setHeight(theme.px(32))
        pen = QPen(QColor(colors.accent), theme.px(1.5))
        pen.setCosmetic(True)  # as wide in pixels, not in tokens/s
        self._curve.setPen(pen)


def step_below(top: float) -> float:
    """From tick to tick of a plot that is as low as this one: at most four of them.

    >>> [step_below(top) for top in (95.0, 55.0, 12.5, 3.1)]
    [50.0, 20.0, 5.0, 1.0]
    """
    if top <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(top / 3.5))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= top / 3.5)


def described(speeds: Sequence[tuple[float, float]]) -> str:
    """The line in words.

    >>> described([(0.5, 40.0), (1.0, 50.0)])
    'From 40.0 to 50.0 tokens/s in 1.0 s'
    """
    if not speeds:
        return ""
    rates = [rate for _, rate in speeds]
    return f"From {min(rates):.1f} to {max(rates):.1f} tokens/s in {speeds[-1][0]:.1f} s"
