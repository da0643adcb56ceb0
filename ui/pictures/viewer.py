"""A window to look at the pictures of a message: fit to it or at any zoom, saved, copied.

A sound is shown by its name and length, and can be saved: this program plays none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QPointF, QRectF, QSaveFile, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QImage,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFileDialog, QVBoxLayout, QWidget
from shiboken6 import isValid

from app.chat.attachments.kinds import PICTURE
from app.chat.attachments.media_details import media_details
from app.pictures.messages import (
    FIRST_FRAME,
    FIRST_PAGE,
    MAX_DRAWN,
    ON_WHITE,
    PictureDrawn,
)
from models.records import Attachment, File
from ui.chat.composer_chips import cost_text
from ui.look.theme import Theme
from ui.pictures.thumbnails import image_of
from ui.pictures.words import pixels_words
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

if TYPE_CHECKING:
    from app.chat.attachments.media_files import MediaFiles

SIZE_PX: Final = (860, 680)
STEP: Final = 1.25
MOST: Final = 8.0
_ENDINGS: Final = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/flac": ".flac",
}
_NOTES: Final = {
    FIRST_FRAME: "first frame only",
    FIRST_PAGE: "first page only",
    ON_WHITE: "transparency shown as white",
}


class Canvas(QAbstractScrollArea):
    """One picture. `zoom` is screen pixels for each of its own; 0: as it fits, never enlarged."""

    zoomed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._image: QImage | None = None
        self._words = ""
        self._zoom = 0.0
        self._held: QPointF | None = None
        self.setObjectName("picture_canvas")
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)

    @property
    def image(self) -> QImage | None:
        return self._image

    @property
    def zoom(self) -> float:
        """What counts now."""
        return self._zoom or self._fitting()

    @property
    def is_fitting(self) -> bool:
        return not self._zoom

    def show_image(self, image: QImage | None, words: str = "") -> None:
        """A picture, or words in its place."""
        self._image, self._words, self._zoom = image, words, 0.0
        self._settle()

    def set_zoom(self, zoom: float, at: QPointF | None = None) -> None:
        """0: as it fits. `at` stays where it is in the viewport."""
        if self._image is None:
            return
        at = at or QPointF(self.viewport().width() / 2, self.viewport().height() / 2)
        before = self._rect()
        x = (at.x() - before.left()) / max(1.0, before.width())
        y = (at.y() - before.top()) / max(1.0, before.height())
        self._zoom = min(MOST, max(min(1.0, self._fitting()) / 4, zoom)) if zoom else 0.0
        self._settle()
        size = self._size()
        self.horizontalScrollBar().setValue(round(x * size.width() - at.x()))
        self.verticalScrollBar().setValue(round(y * size.height() - at.y()))

    def _fitting(self) -> float:
        if self._image is None:
            return 1.0
        room, sharp = self.viewport().size(), self.devicePixelRatioF()
        width, height = self._image.width() / sharp, self._image.height() / sharp
        return min(1.0, room.width() / max(1, width), room.height() / max(1, height))

    def _size(self) -> QSize:
        """Of the picture as it is shown."""
        if self._image is None:
            return QSize()
        scale = self.zoom / self.devicePixelRatioF()
        return QSize(
            max(1, round(self._image.width() * scale)), max(1, round(self._image.height() * scale))
        )

    def _rect(self) -> QRectF:
        """Where it is in the viewport."""
        size, room = self._size(), self.viewport().size()
        x = max(0, (room.width() - size.width()) // 2) - self.horizontalScrollBar().value()
        y = max(0, (room.height() - size.height()) // 2) - self.verticalScrollBar().value()
        return QRectF(x, y, size.width(), size.height())

    def _settle(self) -> None:
        size, room = self._size(), self.viewport().size()
        for bar, whole, seen in (
            (self.horizontalScrollBar(), size.width(), room.width()),
            (self.verticalScrollBar(), size.height(), room.height()),
        ):
            bar.setRange(0, 0 if self.is_fitting else max(0, whole - seen))
            bar.setPageStep(seen)
            bar.setSingleStep(max(1, seen // 10))
        self.viewport().update()
        self.zoomed.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._settle()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = self._theme.colors
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), QColor(colors.side))
        if self._image is None:
            painter.setFont(self._theme.font_text())
            painter.setPen(QColor(colors.dim))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(self.viewport().rect(), int(flags), self._words)
            return
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, self.zoom < 3)
        painter.drawImage(self._rect(), self._image)

    def wheelEvent(self, event: QWheelEvent) -> None:
        steps = event.angleDelta().y() / 120
        if steps:
            self.set_zoom(self.zoom * STEP**steps, event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._held = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._held is not None:
            moved, self._held = event.position() - self._held, event.position()
            for bar, by in (
                (self.horizontalScrollBar(), moved.x()),
                (self.verticalScrollBar(), moved.y()),
            ):
                bar.setValue(bar.value() - round(by))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._held = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.set_zoom(1.0 if self.is_fitting else 0.0, event.position())


class MediaViewer(QWidget):
    """Shows one after the other of `media`; ← and → go through them."""

    def __init__(
        self,
        theme: Theme,
        files: MediaFiles,
        media: Sequence[Attachment],
        place: int,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setProperty("plane", "side")
        self.setObjectName("media_viewer")
        self._theme, self._files = theme, files
        self._media, self._place = list(media), place
        self.canvas = Canvas(theme, self)
        self.canvas.zoomed.connect(self._show_words)
        self._words = plain_label("", self, "small", name="media_words", wraps=True)
        self._build()
        ZoomedSize(self, theme, SIZE_PX)
        self._show(place)
        self.canvas.setFocus()

    @property
    def shown(self) -> Attachment:
        return self._media[self._place]

    def _build(self) -> None:
        row = FlowLayout()
        acts = (
            ("media_previous", "‹", "Previous (←)", lambda: self._step(-1), ("Left",)),
            ("media_next", "›", "Next (→)", lambda: self._step(1), ("Right",)),
            ("media_out", "−", "Zoom out (−)", lambda: self._zoom_by(1 / STEP), ("-", "Ctrl+-")),
            ("media_in", "+", "Zoom in (+)", lambda: self._zoom_by(STEP), ("+", "=", "Ctrl+=")),
            ("media_fit", "Fit", "Fit to the window (0)", lambda: self.canvas.set_zoom(0), ("0",)),
            ("media_whole", "100%", "Actual size (1)", lambda: self.canvas.set_zoom(1), ("1",)),
            ("media_copy", "Copy", "Copy the picture (Ctrl+C)", self._copy, ("Ctrl+C",)),
            ("media_save", "Save…", "Save as a file (Ctrl+S)", self._choose_file, ("Ctrl+S",)),
        )
        self._buttons = {}
        for name, text, hint, act, keys in acts:
            button = push_button(
                text, self, name, spoken=hint.partition(" (")[0], hint=hint, act=act
            )
            self._buttons[name] = button
            row.addWidget(button)
            for key in keys:
                QShortcut(QKeySequence(key), self, act)
        for key in ("Esc", "Ctrl+W"):
            QShortcut(QKeySequence(key), self, self.close)
        column = QVBoxLayout(self)
        column.addWidget(self._words)
        column.addLayout(row)
        column.addWidget(self.canvas, 1)
        self._theme.space(row, 6)
        self._theme.space(column, 10, margins=(12, 10, 12, 12))

    def _show(self, place: int) -> None:
        self._place = place
        shown, is_picture = self.shown, self.shown.kind == PICTURE
        self.setWindowTitle(shown.name)
        kind = "Picture" if is_picture else "Sound"
        self.setAccessibleName(f"{kind} {shown.name}")
        self.canvas.setAccessibleName(f"{kind} {shown.name}")
        for name in ("media_previous", "media_next"):
            self._buttons[name].setVisible(len(self._media) > 1)
        for name in ("media_out", "media_in", "media_fit", "media_whole", "media_copy"):
            self._buttons[name].setVisible(is_picture)
        if not is_picture:
            self.canvas.show_image(
                None, f"{shown.name}\n{cost_text(shown)}\nSave it to listen to it."
            )
            return
        self.canvas.show_image(None, "Loading…")

        def is_wanted() -> bool:
            """The window may be closed before the picture is there."""
            return isValid(self) and self.shown.id == shown.id

        def take(drawn: PictureDrawn | None) -> None:
            if not is_wanted():
                return
            if drawn is None:
                self.canvas.show_image(None, "This picture can't be read. It may be damaged.")
            else:
                self.canvas.show_image(image_of(drawn))

        self._files.draw(shown.id, MAX_DRAWN, MAX_DRAWN, take, still=is_wanted)

    def _show_words(self) -> None:
        done = media_details(self.shown).shown
        parts = [self.shown.name, cost_text(self.shown)]
        if done.given is not None:
            parts.append(f"scaled from {pixels_words(done.given)}")
        parts += [_NOTES[note] for note in done.notes if note in _NOTES]
        if len(self._media) > 1:
            parts.append(f"{self._place + 1} of {len(self._media)}")
        if self.canvas.image is not None:
            parts.append(f"{self.canvas.zoom:.0%}")
        self._words.setText(" · ".join(parts))

    def _step(self, by: int) -> None:
        self._show((self._place + by) % len(self._media))

    def _zoom_by(self, factor: float) -> None:
        self.canvas.set_zoom(self.canvas.zoom * factor)

    def _copy(self) -> None:
        if self.canvas.image is not None:
            QGuiApplication.clipboard().setImage(self.canvas.image)

    def _choose_file(self) -> None:
        shown = self.shown
        ending = _ENDINGS.get(media_details(shown).media_type, Path(shown.name).suffix)
        name = Path(shown.name).stem.replace("/", " ") + ending
        dialog = QFileDialog(self, "Save as", str(Path.home() / name))
        dialog.setObjectName("save_media_dialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.selectFile(name)
        dialog.fileSelected.connect(lambda path: self.save_as(shown, path))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def save_as(self, shown: Attachment, path: str) -> None:
        """The bytes as they are stored."""

        def take(file: File | None) -> None:
            if not isValid(self):
                return
            if file is None:
                self._words.setText("This file can't be read. It may be damaged.")
                return
            target = QSaveFile(path)
            is_saved = target.open(QSaveFile.OpenModeFlag.WriteOnly) and target.write(file[1]) >= 0
            if not (is_saved and target.commit()):
                why = target.errorString()
                self._words.setText(f"“{Path(path).name}” couldn't be saved ({why}).")
            else:
                self._words.setText(f"Saved as “{Path(path).name}”.")

        self._files.load(shown.id, take)
