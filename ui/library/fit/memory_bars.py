"""Memory of one device as a bar: what others use, what weights need by part, what stays free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.amounts import bytes_words
from app.engine.planning.fit import HOST_LABEL, DeviceNeed
from ui.look.icons import paint_icon
from ui.look.theme import Theme
from ui.section.prompt.shares import Swatch
from ui.widgets.elided import ElidedLabel
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label

BAR_PX: Final = 16
NAMES: Final = {
    "others": "used by other programs",
    "weights": "weights",
    "kv": "KV cache",
    "compute": "compute buffers",
    "adapter": "adapters, draft model",
    "projector": "projector",
    "free": "free",
}
"""Parts in the order in which they stand side by side."""


@dataclass(frozen=True, slots=True)
class Segment:
    what: str
    size_bytes: int


def segments_of(need: DeviceNeed) -> tuple[Segment, ...]:
    """What fills the device if the weights are loaded. Without what the processor keeps a second
    time: see `app.engine.planning.fit`."""
    sizes = dict.fromkeys(NAMES, 0)
    for part in need.parts:
        if part.what in sizes:
            sizes[part.what] += part.size_bytes
    beside = sum(sizes[what] for what in ("kv", "compute", "adapter", "projector"))
    sizes["weights"] = max(need.need_bytes - beside, 0)
    sizes["others"] = max(need.total_bytes - need.free_bytes, 0)
    sizes["free"] = max(need.free_bytes - need.need_bytes, 0)
    return tuple(Segment(what, size) for what, size in sizes.items() if size)


def head_words(need: DeviceNeed) -> str:
    """
    >>> need = DeviceNeed("CPU", "main memory", "", 2**30, 2**33, 2**34, 0, (), True)
    >>> head_words(need)
    'needs 1.07 GB of 8.59 GB free, 17.2 GB in total'
    """
    words = f"needs {bytes_words(need.need_bytes)}" if need.need_bytes else "needs no memory"
    words += f" of {bytes_words(need.free_bytes)} free"
    return f"{words}, {bytes_words(need.total_bytes)} in total" if need.total_bytes else words


class MemoryBar(QWidget):
    """The bar alone. Where more is needed than is there, it says so at its end."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._need: DeviceNeed | None = None
        self.setObjectName("memory_bar")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def show_need(self, need: DeviceNeed) -> None:
        self._need = need
        spoken = "; ".join(
            f"{NAMES[s.what]} {bytes_words(s.size_bytes)}" for s in segments_of(need)
        )
        self.setAccessibleName(f"{need.label}: {head_words(need)}")
        self.setAccessibleDescription(spoken)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(200), self._theme.px(BAR_PX))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(40), self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        need = self._need
        if need is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colors, px = self._theme.colors, self._theme.px
        segments = segments_of(need)
        whole = max(need.total_bytes, sum(segment.size_bytes for segment in segments), 1)
        width, height, radius = float(self.width()), float(self.height()), px(3)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.hover))
        painter.drawRoundedRect(QRectF(0, 0, width, height), radius, radius)
        left = 0.0
        for segment in segments:
            right = left + segment.size_bytes / whole * width
            if segment.what != "free":
                gap = min(1.0, (right - left) / 2)
                place = QRectF(left, 0, max(right - left - gap, 0.75), height)
                painter.setBrush(part_brush(segment.what, self._theme))
                painter.drawRoundedRect(place, radius, radius)
            left = right
        if need.need_bytes > need.free_bytes and need.total_bytes:
            # The end of what is there.
            end = need.total_bytes / whole * width
            painter.setBrush(QColor(colors.error))
            painter.drawRect(QRectF(end - px(1), 0, px(2), height))
        painter.end()


def part_brush(what: str, theme: Theme) -> QBrush:
    """Parts differ by colour, what others use by its pattern, too."""
    colors = theme.colors
    if what == "others":
        return QBrush(QColor(colors.dim), Qt.BrushStyle.BDiagPattern)
    named = {
        "weights": colors.accent,
        "kv": colors.from_attachment,
        "compute": colors.from_reply,
        "adapter": colors.from_tool,
        "projector": colors.from_you,
        "free": colors.hover,
    }
    return QBrush(QColor(named[what]))


class DeviceRow(QWidget):
    """One device: its name, the bar, and the parts with their sizes."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.title = plain_label("", self)
        self.title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.figure = ElidedLabel("", self)
        self.figure.setProperty("kind", "small")
        self.figure.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.bar = MemoryBar(theme, self)
        self.trouble = Trouble(theme, self)
        self._legend = QWidget(self)
        self._flow = FlowLayout(self._legend)
        self._swatches: dict[str, Swatch] = {}
        for what in NAMES:
            swatch = Swatch(theme, "", self._brush_of(what), self._legend)
            swatch.setObjectName(f"memory_part_{what}")
            self._swatches[what] = swatch
            self._flow.addWidget(swatch)
        self._head = QHBoxLayout()
        self._head.addWidget(self.title)
        self._head.addWidget(self.figure, 1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._head)
        for widget in (self.bar, self._legend, self.trouble):
            self._column.addWidget(widget)
        theme.font(self.title, Theme.font_small, QFont.Weight.DemiBold)
        theme.font(self.figure, Theme.font_small)
        theme.space(self._head, 12)
        theme.space(self._column, 6)
        theme.space(self._flow, 12)

    def _brush_of(self, what: str) -> Callable[[], QBrush]:
        return lambda: part_brush(what, self._theme)

    def show_need(self, need: DeviceNeed) -> None:
        is_host = need.label == HOST_LABEL
        words = need.label[:1].upper() + need.label[1:]
        self.title.setText(f"{words} · {need.description}" if not is_host else words)
        self.figure.set_text(head_words(need))
        self.bar.show_need(need)
        sizes = {segment.what: segment.size_bytes for segment in segments_of(need)}
        for what, swatch in self._swatches.items():
            words = f"{NAMES[what]} {bytes_words(sizes[what])}" if what in sizes else ""
            if what == "compute" and words:
                words = f"{NAMES[what]} up to {bytes_words(sizes[what])}"
            swatch.setText(words)
            swatch.setVisible(bool(words))
        self.trouble.show_words(_trouble(need))
        self._legend.updateGeometry()


def _trouble(need: DeviceNeed) -> str:
    if need.fits:
        return ""
    if need.need_bytes > need.free_bytes:
        return f"{bytes_words(need.need_bytes - need.free_bytes)} too much"
    return "Too little is left for the system and other programs"


class Trouble(QWidget):
    """A sign and words, where something does not fit."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.label = plain_label("", self, "error")
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.label)
        theme.font(self.label, Theme.font_small)
        theme.space(self._row, margins=(18, 0, 0, 0))
        self.hide()

    def show_words(self, words: str) -> None:
        self.label.setText(words)
        self.setVisible(bool(words))

    def paintEvent(self, event: QPaintEvent) -> None:
        side = self._theme.px(14)
        place = QRectF(0, (self.height() - side) / 2, side, side)
        paint_icon(QPainter(self), place, "x-circle", QColor(self._theme.colors.error))
