"""What weights take in memory as estimated before the load, and as llama.cpp reported it after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.amounts import bytes_words
from app.engine.planning.fit import device_of
from app.engine.planning.placement import DeviceMemory
from app.engine.protocol.loading_messages import Loaded, MemoryPart
from ui.look.theme import Theme
from ui.widgets.kit import plain_label

KINDS: Final = {
    "weights": "Weights",
    "kv": "KV cache",
    "compute": "Compute buffers",
    "draft": "Draft model",
    "projector": "Projector",
}
RESERVED: Final = ("compute", "projector")
"""Of these only a reserve is known before."""
HEADS: Final = ("Measured at load", "Estimated", "Measured", "Deviation")
RESERVE: Final = "Only a reserve is known before loading; this is the part used."
STACK_BELOW_PX: Final = 380
_SAME_KIND: Final = {"output": "compute", "adapter": "weights"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One part on one device; `device` is empty for the host's memory."""

    what: str
    device: str
    estimated_bytes: int
    measured_bytes: int

    @property
    def deviation(self) -> str:
        """How far the measured part is from the estimated one; how much of a reserve was taken.

        >>> Compared("kv", "", 1000, 1020).deviation, Compared("compute", "", 200, 90).deviation
        ('+2.0%', '45% used')
        """
        if not self.estimated_bytes:
            return "–"
        share = self.measured_bytes / self.estimated_bytes
        if self.what in RESERVED:
            return f"{100 * share:.0f}% used"
        percent = round(100 * (share - 1), 1)
        return f"{percent:+.1f}%".replace("-", "−") if percent else "0.0%"


def compared(loaded: Loaded, devices: Sequence[DeviceMemory]) -> list[Compared]:
    """By kind, then by device; what is neither estimated nor measured is left out."""
    estimated, measured = _sums(loaded.estimate, devices), _sums(loaded.memory, devices)
    keys = sorted(
        estimated.keys() | measured.keys(), key=lambda key: (list(KINDS).index(key[0]), key)
    )
    return [Compared(*key, estimated.get(key, 0), measured.get(key, 0)) for key in keys]


def _sums(
    parts: Sequence[MemoryPart], devices: Sequence[DeviceMemory]
) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for part in parts:
        what = _SAME_KIND.get(part.what, part.what)
        if what in KINDS:
            key = what, device_of(part.device, devices)
            sums[key] = sums.get(key, 0) + part.size_bytes
    return sums


class MeasuredTable(QWidget):
    """A row for each part, names at the left."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._labels: list[QLabel] = []
        self._rows: list[Compared] = []
        self.setObjectName("fit_measured")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setColumnStretch(0, 1)
        theme.changed.connect(self._arrange)
        theme.space(self._grid, (16, 4))

    @property
    def rows(self) -> list[Compared]:
        return self._rows

    def show_loaded(self, loaded: Loaded, devices: Sequence[DeviceMemory]) -> None:
        rows = compared(loaded, devices)
        if rows == self._rows:
            return
        self._rows = rows
        for label in self._labels:
            self._grid.removeWidget(label)
            label.deleteLater()
        self._labels.clear()
        for column, head in enumerate(HEADS):
            self._add(head, is_dim=column > 0)
        for row in rows:
            name = KINDS[row.what] + (f" on {row.device}" if row.device else "")
            figures = (
                bytes_words(row.estimated_bytes) if row.estimated_bytes else "–",
                bytes_words(row.measured_bytes) if row.measured_bytes else "–",
                row.deviation,
            )
            spoken = f"{name}: {figures[0]} estimated, {figures[1]} measured, {figures[2]}"
            self._add(name, is_dim=True).setAccessibleName(spoken)
            for figure in figures:
                self._add(figure)
            if row.what in RESERVED:
                self._labels[-1].setToolTip(RESERVE)
        self._arrange()

    def _add(self, text: str, *, is_dim: bool = False) -> QLabel:
        label = plain_label(text, self, "small" if is_dim else "")
        weight = QFont.Weight.Normal if self._labels else QFont.Weight.DemiBold
        self._theme.font(label, Theme.font_small, weight)
        self._labels.append(label)
        return label

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Figures stand beside the name of their part where there is room, else below it."""
        is_stacked = self.width() < self._theme.px(STACK_BELOW_PX)
        left, right = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
        for at, label in enumerate(self._labels):
            row, column = divmod(at, len(HEADS))
            if not is_stacked:
                self._grid.addWidget(label, row, column, left if column == 0 else right)
            elif column == 0:
                self._grid.addWidget(label, 2 * row, 0, 1, len(HEADS) - 1, left)
            else:
                self._grid.addWidget(label, 2 * row + 1, column - 1, left if column == 1 else right)
