"""The whole pipeline for the token that is looked at, in one thin picture.

    prompt › token › ID › vector › position › layers › logit › probability › choice › text ↺ loop

Each part shows one figure of this token, leads to its panel, and is lit while that is open. What
isn't known is a dash: nothing stands there that wasn't measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from app.insight.tour.facts import Facts
from app.insight.tour.line import STAGES, UNKNOWN, Stage, figure_of
from app.insight.tour.token import token_facts
from ui.look.theme import Theme
from ui.section.panel import Tools
from ui.widgets.flow import FlowLayout

_PADDING_PX: Final = 3
_ARROW_PX: Final = 7
_MOST_PX: Final = 96
"""No part is wider: a token may be a whole sentence."""


class StageButton(QPushButton):
    """A small name, its figure below, and the arrow that leads to it."""

    def __init__(self, theme: Theme, stage: Stage, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.stage = stage
        self.figure = UNKNOWN
        self.is_lit = False
        self.setObjectName(f"pipeline_{stage.name.lower().replace(' ', '_')}")
        self.setProperty("kind", "quiet")
        self.setAutoDefault(False)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)
        self.show_figure(UNKNOWN)

    def show_figure(self, figure: str) -> None:
        is_other_width = len(figure) != len(self.figure)
        self.figure = figure
        where = self.stage.room if self.stage.panel == "Tokens" else ""
        place = f"{self.stage.panel} panel" + (f", {where}" if where else "")
        self.setAccessibleName(f"{self.stage.name}: {figure}")
        self.setToolTip(f"{self.stage.does}. Opens the {place}.")
        if is_other_width:
            self.updateGeometry()
        self.update()

    def set_lit(self, is_lit: bool) -> None:
        if is_lit != self.is_lit:
            self.is_lit = is_lit
            self.update()

    def _fonts(self) -> tuple[QFont, QFont]:
        """Of the name and of the figure."""
        small = self._theme.font_small()
        name = QFont(small)
        name.setPixelSize(max(8, self._theme.px(10)))
        return name, small

    def sizeHint(self) -> QSize:
        px = self._theme.px
        name, figure = map(QFontMetrics, self._fonts())
        width = max(name.horizontalAdvance(self.stage.name), figure.horizontalAdvance(self.figure))
        arrow = px(_ARROW_PX) if self.stage.arrow else 0
        return QSize(
            min(width + 2 * px(_PADDING_PX), px(_MOST_PX)) + arrow,
            name.height() + figure.height() + px(_PADDING_PX),
        )

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        px, colors = self._theme.px, self._theme.colors
        name_font, figure_font = self._fonts()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        arrow = px(_ARROW_PX) if self.stage.arrow else 0
        part = QRectF(self.rect()).adjusted(arrow, 0, 0, 0)
        tone = colors.accent_tone if self.is_lit else colors.hover if self.underMouse() else ""
        if tone:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tone))
            painter.drawRoundedRect(part, px(4), px(4))
        if self.hasFocus():
            painter.setPen(QColor(colors.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(part.adjusted(0.5, 0.5, -0.5, -0.5), px(4), px(4))
        painter.setPen(QColor(colors.dim))
        painter.setFont(figure_font)
        if arrow:
            painter.drawText(
                QRectF(0, 0, arrow, self.height()), Qt.AlignmentFlag.AlignCenter, self.stage.arrow
            )
        inner = part.adjusted(px(_PADDING_PX), px(_PADDING_PX) / 2, -px(_PADDING_PX), 0)
        painter.setFont(name_font)
        painter.drawText(inner, Qt.AlignmentFlag.AlignTop, self.stage.name)
        metrics = QFontMetrics(figure_font)
        inner.setTop(inner.top() + QFontMetrics(name_font).height())
        painter.setFont(figure_font)
        painter.setPen(QColor(colors.accent if self.is_lit else colors.ink))
        elide = Qt.TextElideMode.ElideRight
        painter.drawText(
            inner,
            Qt.AlignmentFlag.AlignTop,
            metrics.elidedText(self.figure, elide, int(inner.width()) + 1),
        )


class PipelineLine(QWidget):
    """Follows what is looked at while it is on screen. `wanted`: a panel and a room in it."""

    wanted = Signal(str, str)

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tools = tools
        self._is_awake = False
        self.setObjectName("pipeline_line")
        self.setAccessibleName("The pipeline of this token")
        self.buttons = [StageButton(tools.theme, stage, self) for stage in STAGES]
        flow = FlowLayout(self)
        tools.theme.space(flow, 0)
        for button in self.buttons:
            flow.addWidget(button)
            button.clicked.connect(self._leads_to(button.stage))
            button.setHidden(button.stage.is_rare)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        looking = tools.looking
        for signal in (looking.message_changed, looking.trace_changed, looking.token_changed):
            signal.connect(self._refresh)

    def _leads_to(self, stage: Stage) -> Callable[[], None]:
        return lambda: self.wanted.emit(stage.panel, stage.room)

    def set_awake(self, is_awake: bool) -> None:
        self._is_awake = is_awake
        self._refresh()

    def show_open(self, panel: str) -> None:
        """Which panel is on screen."""
        for button in self.buttons:
            button.set_lit(button.stage.panel == panel)

    def facts(self) -> Facts:
        """What is known of the token that is looked at."""
        looking = self._tools.looking
        message, token, at = looking.message, looking.token, looking.index
        if message is None or token is None or at is None:
            return {}
        return token_facts(message, token, at, looking.loaded)

    def _refresh(self) -> None:
        if not self._is_awake:
            return
        facts = self.facts()
        for button in self.buttons:
            button.show_figure(figure_of(button.stage, facts))
            button.setHidden(button.stage.is_rare and button.stage.fact not in facts)
