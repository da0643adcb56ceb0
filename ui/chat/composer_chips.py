"""What goes along with the next message: a chip for each text, with its size and its cost.

By keyboard: Tab reaches a chip, Enter opens it, Delete removes it, the menu key offers the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QPainter, QPixmap
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QMenu, QVBoxLayout, QWidget

from app.chat.attachments.kinds import AUDIO, MEDIA, PICTURE
from app.reading.document import EPUB, HTML, ODP, ODS, PDF, PPTX, XLSX
from models.records import Attachment
from ui.chat.document_words import facts_text, places_text, tokens_text
from ui.look.icons import icon
from ui.look.theme import Theme
from ui.pictures.thumbnails import Thumbnails, paint_covering
from ui.pictures.words import size_words
from ui.widgets.elided import ElidedLabel, tip_text
from ui.widgets.flow import FlowLayout, ShortArea
from ui.widgets.icon_button import ICON_PX
from ui.widgets.kit import plain_label, push_button

NAME_PX = 200
HEIGHT_PX = 30
PICTURE_PX = 52
MAX_HEIGHT_PX = 112
"""Three lines of chips, or two of pictures; more of them scroll."""

_SPOKEN = {PICTURE: " picture", AUDIO: " sound"}
_DELETES = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)
_ICONS = {
    PDF: "file-pdf",
    **dict.fromkeys((XLSX, ODS), "table"),
    **dict.fromkeys((PPTX, ODP), "presentation"),
    EPUB: "book-open",
    HTML: "globe",
}
_OPENS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


def cost_text(attachment: Attachment) -> str:
    """Its size (of a picture in pixels, of a sound in time), and its tokens once they are
    counted."""
    size = size_words(attachment)
    if attachment.tokens is None:
        return size
    return f"{size} · {attachment.tokens:,} token{'' if attachment.tokens == 1 else 's'}"


def short_text(attachment: Attachment) -> str:
    """As `cost_text`, of a document its pages in place of its size."""
    places = places_text(attachment)
    if not places or attachment.tokens is None:
        return places or cost_text(attachment)
    return f"{places} · {tokens_text(attachment.tokens)}"


def icon_name(attachment: Attachment) -> str:
    if attachment.kind in MEDIA:
        return "image" if attachment.kind == PICTURE else "speaker-high"
    return _ICONS.get(str(attachment.details.get("media_type", "")), "file-text")


class Chip(QFrame):
    """One text, picture or sound that goes along. It takes the keyboard itself; its button is for
    the mouse."""

    opened = Signal(str)
    removed = Signal(str)
    wanted_as_text = Signal(str)
    wanted_source = Signal(str)

    def __init__(
        self,
        theme: Theme,
        attachment: Attachment,
        parent: QWidget | None = None,
        thumbnails: Thumbnails | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.attachment = attachment
        self._thumbnails = thumbnails if attachment.kind == PICTURE else None
        self.setObjectName("attachment_chip")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click opens it, and writing goes on
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._icon = QLabel(self)
        self._name = ElidedLabel(attachment.name, self)
        self._cost = plain_label("", self, "small")
        self._remove = push_button(
            "",
            self,
            "remove_attachment_button",
            kind="quiet",
            act=lambda: self.removed.emit(self.attachment.id),
        )
        self._remove.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._remove.setCursor(Qt.CursorShape.ArrowCursor)
        self._row = QHBoxLayout(self)
        words = QHBoxLayout() if self._thumbnails is None else QVBoxLayout()
        self._row.addWidget(self._icon)
        self._row.addLayout(words)
        for widget in (self._name, self._cost):
            words.addWidget(widget)
        self._row.addWidget(self._remove)
        theme.changed.connect(self._dress)
        self.show_attachment(attachment)
        is_picture = self._thumbnails is not None
        theme.space(words, 0 if is_picture else 6, margins=(0, 6, 0, 6) if is_picture else None)
        theme.space(self._row, 6, margins=(4 if is_picture else 10, 0, 2, 0))
        theme.at_most(self._name, NAME_PX)
        theme.size(self._remove, 24, 24)
        theme.size(self, height=PICTURE_PX if is_picture else HEIGHT_PX)
        self._dress()
        if self._thumbnails is not None:
            self._thumbnails.arrived.connect(self._on_arrived)

    def _on_arrived(self, attachment_id: str) -> None:
        if attachment_id == self.attachment.id:
            self._show_icon()

    def show_attachment(self, attachment: Attachment) -> None:
        """The same text; its cost may be known now."""
        self.attachment = attachment
        self._cost.setText(short_text(attachment))
        facts = facts_text(attachment)
        words = f"{attachment.name}, {f'{facts} · ' if facts else ''}{cost_text(attachment)}"
        self.setAccessibleName(f"Attached{_SPOKEN.get(attachment.kind, '')}: {words}")
        self.setAccessibleDescription("Enter to open, Delete to remove.")
        self.setToolTip(tip_text(f"{words}\nEnter to open · Delete to remove"))
        self._remove.setAccessibleName(f"Remove {attachment.name}")
        self._remove.setToolTip("Remove (Delete)")
        self.updateGeometry()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _DELETES:
            self.removed.emit(self.attachment.id)
        elif event.key() in _OPENS:
            self.opened.emit(self.attachment.id)
        else:
            super().keyPressEvent(event)

    def mouseReleaseEvent(self, event: object) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(  # type: ignore[attr-defined]
            event.position().toPoint()  # type: ignore[attr-defined]
        ):
            self.opened.emit(self.attachment.id)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        own = self.attachment.id
        menu.addAction("Open").triggered.connect(lambda: self.opened.emit(own))
        if self.attachment.kind not in MEDIA:
            menu.addAction("Paste into the message instead").triggered.connect(
                lambda: self.wanted_as_text.emit(own)
            )
        if self.attachment.details.get("media_type") == HTML:
            menu.addAction("Attach its source code instead").triggered.connect(
                lambda: self.wanted_source.emit(own)
            )
        menu.addAction("Remove").triggered.connect(lambda: self.removed.emit(own))
        menu.popup(event.globalPos())

    def _dress(self) -> None:
        colors = self._theme.colors
        px = self._theme.px
        self._show_icon()
        self._remove.setIcon(icon("x", colors.dim))
        self._remove.setIconSize(QSize(px(ICON_PX), px(ICON_PX)))
        self.setStyleSheet(
            f"""
            #attachment_chip {{
                background: {colors.bubble}; border: 2px solid transparent;
                border-radius: {px(8)}px;
            }}
            #attachment_chip:hover {{ background: {colors.hover}; }}
            #attachment_chip:focus {{ border-color: {colors.accent}; }}
            QLabel {{ background: transparent; }}
            QPushButton {{ padding: 0; }}
            """
        )

    def _show_icon(self) -> None:
        """What kind of thing it is; of a picture, itself in small."""
        px, side = self._theme.px, self._theme.px(PICTURE_PX - 8)
        sharp = self.devicePixelRatioF()
        found = self._thumbnails
        image = (
            found.find(self.attachment.id, 2 * side * sharp, 2 * side * sharp) if found else None
        )
        if image is None:
            name = icon_name(self.attachment)
            self._icon.setPixmap(icon(name, self._theme.colors.dim).pixmap(px(15), px(15)))
            return
        small = QPixmap(round(side * sharp), round(side * sharp))
        small.setDevicePixelRatio(sharp)
        small.fill(Qt.GlobalColor.transparent)
        painter = QPainter(small)
        paint_covering(painter, QRectF(0, 0, side, side), image, px(5))
        painter.end()
        self._icon.setPixmap(small)


class ChipRow(ShortArea):
    """All chips of a draft. Hidden where there are none."""

    opened = Signal(str)
    removed = Signal(str)
    wanted_as_text = Signal(str)
    wanted_source = Signal(str)
    left = Signal()

    def __init__(
        self,
        theme: Theme,
        parent: QWidget | None = None,
        thumbnails: Thumbnails | None = None,
    ) -> None:
        inside = QWidget()
        self._thumbnails = thumbnails
        self._flow = FlowLayout(inside)
        super().__init__(inside, parent)
        self._theme = theme
        self._chips: dict[str, Chip] = {}
        self.setObjectName("attachment_chips")
        self.setAccessibleName("Attachments to the next message")
        theme.space(self._flow, 6)
        theme.keep(self, ChipRow.set_limit, MAX_HEIGHT_PX)
        self.setStyleSheet("#attachment_chips, #attachment_chips > QWidget { background: none; }")
        self.hide()

    def chips(self) -> list[Chip]:
        return list(self._chips.values())

    def set_attachments(self, attachments: Sequence[Attachment]) -> None:
        """Show these; chips that stay keep the keyboard."""
        focused = next((own for own, chip in self._chips.items() if chip.hasFocus()), "")
        place = list(self._chips).index(focused) if focused else 0
        wanted = [attachment.id for attachment in attachments]
        for gone in [own for own in self._chips if own not in wanted]:
            chip = self._chips.pop(gone)
            self._flow.removeWidget(chip)
            chip.hide()
            chip.deleteLater()
        for attachment in attachments:
            if attachment.id in self._chips:
                self._chips[attachment.id].show_attachment(attachment)
            else:
                self._add(attachment)
        self.setVisible(bool(self._chips))
        self.fit()
        if focused and focused not in self._chips:
            self._focus_near(place)

    def _add(self, attachment: Attachment) -> None:
        chip = Chip(self._theme, attachment, self.widget(), self._thumbnails)
        chip.opened.connect(self.opened)
        chip.removed.connect(self.removed)
        chip.wanted_as_text.connect(self.wanted_as_text)
        chip.wanted_source.connect(self.wanted_source)
        self._chips[attachment.id] = chip
        self._flow.addWidget(chip)
        chip.show()

    def _focus_near(self, place: int) -> None:
        """A chip was removed by keyboard: the next one has it, or whoever hears `left`."""
        chips = self.chips()
        if chips:
            chips[min(place, len(chips) - 1)].setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.left.emit()
