"""A text in Markdown to be read: a model card. Drawn by the renderer of the transcript, so nothing
in it is loaded from anywhere; a link is opened only after a question."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QMenu, QWidget

from app.markdown.document import Document
from ui.look.theme import Theme
from ui.markdown.styles import Styles
from ui.shell.dialogs import confirm_link
from ui.transcript.body import Body

SIDE_PX = 12
MAX_WIDTH_PX = 720
SPOKEN_CHARS = 20_000


class CardView(QAbstractScrollArea):
    """`show_text` shows it from its beginning."""

    link_pressed = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._styles = Styles(theme)
        self._body = Body(Document(""), self._styles, 100)
        self._text = ""
        self.setObjectName("model_card")
        self.setAccessibleName("Model card")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.viewport().setMouseTracking(True)
        self.viewport().setAutoFillBackground(False)
        # The rest of a long text is read a slice at a time.
        self._reading = QTimer(self)
        self._reading.setInterval(0)
        self._reading.timeout.connect(self._read_on)
        self.customContextMenuRequested.connect(self._open_menu)
        self.link_pressed.connect(lambda address: confirm_link(self, address))
        self.verticalScrollBar().valueChanged.connect(self.viewport().update)
        theme.changed.connect(self._restyle)

    @property
    def text(self) -> str:
        """The Markdown that is shown."""
        return self._text

    def show_text(self, markdown: str) -> None:
        self._text = markdown
        self._body = Body(Document(markdown), self._styles, self._column())
        self.setAccessibleDescription(markdown[:SPOKEN_CHARS])
        self.verticalScrollBar().setValue(0)
        self._lay_out()

    def _restyle(self) -> None:
        self._styles = Styles(self._theme)
        self._lay_out()

    def _column(self) -> float:
        room = self.viewport().width() - 2 * self._theme.px(SIDE_PX)
        return float(max(40, min(room, self._theme.px(MAX_WIDTH_PX))))

    def _lay_out(self) -> None:
        self._body.restyle(self._styles, self._column())
        self._body.read()
        bar = self.verticalScrollBar()
        # Heights outside of the view are guesses, which laying out makes true.
        for _ in range(3):
            if not self._body.ensure(bar.value(), bar.value() + self.viewport().height()):
                break
        self._set_range()
        if not self._body.is_whole:
            self._reading.start()
        self.viewport().update()

    def _read_on(self) -> None:
        self._body.read()
        self._set_range()
        if self._body.is_whole:
            self._reading.stop()
        self.viewport().update()

    def _set_range(self) -> None:
        height, page = self._body.height + self._theme.px(16), self.viewport().height()
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, int(height) - page))
        bar.setPageStep(page)
        bar.setSingleStep(int(self._styles.line_step))

    # --- Qt -------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def paintEvent(self, event: QPaintEvent) -> None:
        top = self.verticalScrollBar().value()
        view = QRectF(self.viewport().rect())
        if self._body.ensure(top, top + view.height()):
            self._set_range()
            top = self.verticalScrollBar().value()
        self._body.release(top, top + view.height())
        at = QPointF(self._theme.px(SIDE_PX), -top)
        self._body.paint(QPainter(self.viewport()), at, view)

    def _link_at(self, point: QPointF) -> str:
        shift = QPointF(-self._theme.px(SIDE_PX), self.verticalScrollBar().value())
        return self._body.link_at(point + shift)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        is_link = bool(self._link_at(event.position()))
        shape = Qt.CursorShape.PointingHandCursor if is_link else Qt.CursorShape.ArrowCursor
        self.viewport().setCursor(shape)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        address = self._link_at(event.position())
        if address and event.button() is Qt.MouseButton.LeftButton:
            self.link_pressed.emit(address)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.verticalScrollBar()
        step = {
            Qt.Key.Key_Down: bar.singleStep(),
            Qt.Key.Key_Up: -bar.singleStep(),
            Qt.Key.Key_PageDown: bar.pageStep(),
            Qt.Key.Key_Space: bar.pageStep(),
            Qt.Key.Key_PageUp: -bar.pageStep(),
            Qt.Key.Key_Home: -bar.maximum(),
            Qt.Key.Key_End: bar.maximum(),
        }.get(Qt.Key(event.key()))
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif step is not None:
            bar.setValue(bar.value() + step)
        else:
            super().keyPressEvent(event)

    def copy(self) -> None:
        """The whole card as Markdown."""
        QGuiApplication.clipboard().setText(self._text)

    def _open_menu(self, at: Any) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Copy the card as Markdown", self.copy)
        menu.popup(self.viewport().mapToGlobal(at))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.LayoutDirectionChange:
            self._lay_out()
