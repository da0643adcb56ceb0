"""The line under the composer: how full the window is, how a growing reply is doing, the engine.

Only measured figures are shown, and none that stands elsewhere; what is not known yet is left out.
Where the line has no room the least important figures go first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QCursor, QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QToolTip, QWidget

from app.amounts import bytes_words
from app.chat.events import EngineStateChanged, StatusFigures
from app.engine.planning.estimate import looking_bytes
from app.engine.protocol.loading_messages import Loaded
from models.records import MessageCounts
from ui.look.theme import Theme
from ui.widgets.figures import device_text, rate_text, seconds_text
from ui.widgets.kit import plain_label

if TYPE_CHECKING:
    from app.chat.inspection.memory import MemoryNow

NO_FIGURES = MessageCounts()
METER_PX = 90
GAP_PX = 20
LOOK_MS = 1500
"""So often memory is measured while its tooltip is shown."""

# In the order of the line. The last of `LEAVE_FIRST` stays longest.
FIGURES = (
    *("context", "tokens", "rate", "first_token", "threads", "device", "memory", "downloads"),
    "server",
)
LEAVE_FIRST = (
    "memory",
    "device",
    "threads",
    "first_token",
    "tokens",
    "downloads",
    "server",
    "rate",
    "context",
)


class ContextMeter(QProgressBar):
    """A thin bar. A little is seen as a little, not as nothing."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.is_over = False

    def filled_px(self) -> float:
        """How wide the filled part is."""
        if self.value() <= 0:
            return 0.0
        return max(float(self.height()), self.width() * self.value() / max(1, self.maximum()))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        colors, bar, radius = self._theme.colors, QRectF(self.rect()), self.height() / 2
        painter.setBrush(QColor(colors.line))
        painter.drawRoundedRect(bar, radius, radius)
        if self.value() > 0:
            bar.setWidth(self.filled_px())
            painter.setBrush(QColor(colors.error if self.is_over else colors.accent))
            painter.drawRoundedRect(bar, radius, radius)


class StatusLine(QWidget):
    """`memory_looked_at`: somebody looks at the memory now; answer by `show_memory`.
    `server_pressed`: the server's mark was clicked."""

    memory_looked_at = Signal()
    server_pressed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("status_line")
        self.setAccessibleName("Status")
        self._loaded: Loaded | None = None
        self._waiting = ""
        self._downloads = ""
        self._server = ""
        self._note = ""
        self._texts = dict.fromkeys(FIGURES, "")
        self._caption = plain_label("context", self, "small")
        self.meter = ContextMeter(theme, self)
        self.meter.setObjectName("context_meter")
        self.meter.setAccessibleName("Context used")
        self.meter.setTextVisible(False)
        self._labels = {
            name: plain_label("", self, "small", name=f"status_{name}") for name in FIGURES
        }
        self._chosen: tuple[frozenset[str], int] | None = None
        self._memory_tip = ""
        self._looks = QTimer(self)
        self._looks.setInterval(LOOK_MS)
        self._looks.timeout.connect(self._look_again)
        self._build()
        self._show()

    def _build(self) -> None:
        self._row = QHBoxLayout(self)
        self._row.setSizeConstraint(QHBoxLayout.SizeConstraint.SetNoConstraint)
        self._row.addWidget(self._caption)
        self._row.addWidget(self.meter)
        for name in FIGURES:
            self._row.addWidget(self._labels[name])
        self._labels["memory"].installEventFilter(self)
        self._labels["server"].installEventFilter(self)
        self._labels["server"].setCursor(Qt.CursorShape.PointingHandCursor)
        self._row.addStretch()
        self._theme.changed.connect(self._choose)
        self._theme.space(self._row, 8, margins=0)
        self._theme.size(self.meter, METER_PX, 5)
        self._choose()

    def minimumSizeHint(self) -> QSize:
        """Figures leave; they never hold the window wide. The line is as high without any, so
        that the composer above stays where it is."""
        margins = self.contentsMargins()
        line = QFontMetrics(self._theme.font_small()).height()
        return QSize(0, line + margins.top() + margins.bottom())

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._choose()

    # --- what is known ------------------------------------------------------------------

    def set_context(self, used: int, size: int, n_cut: int = 0, *, is_text: bool = False) -> None:
        """`n_cut` messages, or of a text its beginning, would be left out of the next prompt."""
        is_known, over = size > 0, used - size
        what = "beginning" if is_text else _counted(n_cut, "older message")
        words = f"{over:,} tokens over the limit" if over > 0 else f"{used:,} / {size:,}"
        if is_text and n_cut:  # in a chat a line between the messages says so
            words += f" · {what} dropped"
        self._texts["context"] = words if is_known else ""
        self.meter.is_over = is_known and over > 0
        self.meter.setRange(0, max(1, size))
        self.meter.setUpdatesEnabled(False)  # Qt would paint at once, and all that waits with it
        self.meter.setValue(min(used, max(1, size)) if is_known else 0)
        self.meter.setUpdatesEnabled(True)
        self.meter.update()  # Qt compares with what it painted last, and it is not Qt that paints
        cut = f"; {what} dropped" if n_cut else ""
        self.meter.setToolTip(f"{used:,} of {size:,} tokens of the context window used{cut}")
        self._show()

    def set_figures(self, figures: StatusFigures) -> None:
        """A reply that grows; of one that is not on screen only the threads."""
        if figures.n_threads:
            self._texts["threads"] = _counted(figures.n_threads, "thread")
        if not figures.is_shown:
            self._show()
            return
        self.set_reply(figures)
        if figures.context_used:  # a server may not say it
            self.set_context(figures.context_used, figures.context_size)

    def set_reply(self, figures: StatusFigures | MessageCounts = NO_FIGURES) -> None:
        """How the reply on screen is doing. None: they stand under it, or it has gone."""
        generated, rate, first = figures.generated, figures.tokens_per_s, figures.first_token_s
        self._texts["tokens"] = _counted(generated, "token") if generated else ""
        self._texts["rate"] = rate_text(rate) if rate else ""
        self._texts["first_token"] = (
            f"first token {seconds_text(first)}" if first is not None else ""
        )
        self._show()

    def set_engine_state(self, state: EngineStateChanged) -> None:
        self._loaded = state.loaded
        self._note = state.note
        if state.loaded is None:
            self._texts = dict.fromkeys(FIGURES, "")
        else:
            n_threads = state.loaded.n_threads  # of a server nobody knows them
            self._texts["threads"] = _counted(n_threads, "thread") if n_threads else ""
            self._texts["device"] = device_text(state.loaded)
            sizes = sum(part.size_bytes for part in state.loaded.memory)
            self._texts["memory"] = bytes_words(sizes) if sizes else ""
            self._memory_tip = "" if state.loaded.remote else _memory_parts(state.loaded)
            self._labels["memory"].setToolTip(self._memory_tip)
        self._show()

    # --- memory, while somebody looks -----------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._labels["memory"] and event.type() == QEvent.Type.ToolTip:
            self._looks.start()
            self.memory_looked_at.emit()
        if watched is self._labels["server"] and event.type() == QEvent.Type.MouseButtonRelease:
            self.server_pressed.emit()
        return super().eventFilter(watched, event)

    def _look_again(self) -> None:
        label = self._labels["memory"]
        if label.underMouse() and QToolTip.isVisible():
            self.memory_looked_at.emit()
        else:
            self._looks.stop()

    def show_memory(self, now: MemoryNow) -> None:
        """What it is just now; the tooltip, if it is there, says so at once."""
        if self._loaded is None:
            return
        label = self._labels["memory"]
        label.setToolTip("\n".join([*now.lines(), self._memory_tip]))
        if self._looks.isActive() and label.underMouse() and QToolTip.isVisible():
            QToolTip.showText(QCursor.pos(), label.toolTip(), label)

    def set_waiting(self, is_waiting: bool) -> None:
        """A message waits: for the weights, or for the reply that they are busy with."""
        words = "Queued" if self._loaded else "Sends as soon as the model is loaded"
        self._waiting = words if is_waiting else ""
        self._show()

    def set_downloads(self, text: str, hint: str) -> None:
        """What is fetched in the background; empty: nothing is."""
        if text != self._downloads:
            self._downloads = text
            self._show()
        self._labels["downloads"].setToolTip(hint)

    def set_server(self, text: str, hint: str) -> None:
        """Other programs are served; empty: they are not."""
        if text != self._server:
            self._server = text
            self._show()
        self._labels["server"].setToolTip(hint)

    def text(self, name: str) -> str:
        return self._texts[name]

    # --- showing ------------------------------------------------------------------------

    def _shown_texts(self) -> dict[str, str]:
        texts = {**self._texts, "downloads": self._downloads, "server": self._server}
        said = self._waiting or self._note
        return {**texts, "tokens": said} if said else texts

    def _show(self) -> None:
        texts = self._shown_texts()
        for name, text in texts.items():
            if self._labels[name].text() != text:
                self._labels[name].setText(text)
        self.setAccessibleDescription(", ".join(text for text in texts.values() if text))
        self._choose()

    def _text_width(self, name: str) -> int:
        label = self._labels[name]
        return label.sizeHint().width() - label.contentsMargins().left()

    def _choose(self) -> None:
        """Hide figures until the rest fits."""
        px = self._theme.px
        texts = self._shown_texts()
        shown = {name for name in FIGURES if texts[name]}
        widths = {name: self._text_width(name) + px(GAP_PX) for name in shown}
        head = self._caption.sizeHint().width() + px(METER_PX) + px(16)
        room = self.contentsRect().width() + px(GAP_PX) - (head if "context" in shown else 0)
        for name in LEAVE_FIRST:
            if sum(widths[each] for each in shown) <= room:
                break
            shown.discard(name)
        chosen = (frozenset(shown), px(GAP_PX))
        if chosen == self._chosen:
            return
        self._chosen = chosen
        for name in FIGURES:
            self._labels[name].setVisible(name in shown)
            is_first = not shown or name == min(shown, key=FIGURES.index)
            self._labels[name].setContentsMargins(0 if is_first else px(GAP_PX - 8), 0, 0, 0)
        has_context = "context" in shown
        self._caption.setVisible(has_context)
        self.meter.setVisible(has_context)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _memory_parts(loaded: Loaded) -> str:
    """Each measured allocation on its own line, and what else the panel Inside may take."""
    more = looking_bytes(loaded.memory, loaded.n_ctx, loaded.n_layer)
    return "\n".join(
        ["When loaded:"]
        + [
            f"{part.what} on {part.device}: {bytes_words(part.size_bytes)}"
            for part in loaded.memory
        ]
        + [f"Looking inside: up to {bytes_words(more)} more while it is used"]
        + ["A reply with parts cut: about as much again"]
    )
