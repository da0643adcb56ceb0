"""A chat as a PDF: Qt's own writer, with the transcript's layouts on its pages.

Text stays text, in whatever fonts it needs. What must hold: no step takes long, however large the
chat is (a step lays out one segment of a text, or paints what one page has of it); pages go to the
disk as they are full.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QFile, QFileDevice, QIODevice, QMarginsF, QObject, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPageLayout, QPageSize, QPainter, QPdfWriter

from app.chat.exchange.choices import Choices
from app.chat.exchange.reading import Chat
from ui.look.theme import Theme
from ui.paper.flow import Decoded, Leaf, Leaves, decoded
from ui.paper.parts import Part, parts_of_chat
from ui.paper.steps import Steps
from ui.paper.styles import PaperTheme

DPI: Final = 600
PT_PER_PX: Final = 0.7
"""The window's 15 px become 10.5 pt."""
SIDE, ABOVE, BELOW = 64.0, 56.0, 72.0
FOOT: Final = 40.0
"""Lengths of the window: margins, and how far above the page's end its number stands."""
_SIZES: Final = {"A4": QPageSize.PageSizeId.A4, "Letter": QPageSize.PageSizeId.Letter}


class Pages:
    """One file. `marks`: what begins where, as (title, page from 0)."""

    def __init__(self, path: Path, title: str, paper: str, theme: Theme) -> None:
        self._file = QFile(str(path))
        if not self._file.open(QIODevice.OpenModeFlag.WriteOnly):
            raise OSError(0, self._file.errorString())
        self._writer = QPdfWriter(self._file)
        self._writer.setTitle(title)
        self._writer.setCreator("Cutaway")
        self._writer.setResolution(DPI)
        size = QPageSize(_SIZES.get(paper, QPageSize.PageSizeId.A4))
        around = QMarginsF(0, 0, 0, 0)
        self._writer.setPageLayout(QPageLayout(size, QPageLayout.Orientation.Portrait, around))
        self._painter = QPainter(self._writer)
        self._painter.scale(DPI / 72 * PT_PER_PX, DPI / 72 * PT_PER_PX)
        points = size.size(QPageSize.Unit.Point)
        self._wide, self._high = points.width() / PT_PER_PX, points.height() / PT_PER_PX
        self._leaves = Leaves(theme, self._wide - 2 * SIDE)
        self._y = ABOVE
        self._held: list[Leaf] = []
        self._due: deque[Leaf] = deque()
        self._title = title
        self._number = 1
        self.marks: list[tuple[str, int]] = []

    def add(self, part: Part | Decoded) -> bool:
        """Lay it out; whether there is something to be painted (`place`)."""
        while self.place():
            pass
        leaf = self._leaves.leaf_of(part)
        if leaf is None:
            return False
        self._held.append(leaf)
        if not leaf.keeps_next or len(self._held) > 4:
            self._release()
        return bool(self._due)

    def place(self) -> bool:
        """Paint one more slice of what was laid out, on one page; whether there is more."""
        if self._due and self._place(self._due[0]):
            self._due.popleft()
        return bool(self._due)

    def end(self) -> None:
        """Raises OSError where it couldn't all be written."""
        self._release()
        while self.place():
            pass
        self._paint_foot()
        self._painter.end()
        self._file.flush()
        self._check_file()
        self._file.close()

    def abandon(self) -> None:
        """Nobody wants it any more; what is in the file is no PDF."""
        if self._painter.isActive():
            self._painter.end()
        self._file.close()

    # --- placing --------------------------------------------------------------------------------

    @property
    def _bottom(self) -> float:
        return self._high - BELOW

    def _release(self) -> None:
        """What was held begins on one page."""
        held, self._held = self._held, []
        if not held:
            return
        wanted = sum(leaf.space + leaf.height for leaf in held[:-1])
        last = held[-1]
        wanted += last.space + (last.breaks[0] if last.breaks else last.height)
        if len(held) > 1 and self._y > ABOVE and self._y + wanted > self._bottom:
            self._turn()
        self._due.extend(held)

    def _place(self, leaf: Leaf) -> bool:
        """As much of it as this page has room for; whether that was all."""
        is_new = self._y <= ABOVE
        space = leaf.space if not is_new and leaf.cut == 0 else 0.0
        room = self._bottom - self._y - space
        end = leaf.fitting(room)
        if not end and is_new:
            end = leaf.cut + min(room, leaf.rest())  # nowhere to cut it: anywhere
        if end:
            if leaf.mark and not leaf.cut:
                self.marks.append((leaf.mark, self._number - 1))
            at = QPointF(SIDE + leaf.left, self._y + space)
            leaf.paint(self._painter, at, end)
            self._y += space + end - leaf.cut
            leaf.cut = end
        if leaf.rest() <= 0:
            return True
        self._turn()
        return False

    def _turn(self) -> None:
        self._paint_foot()
        self._writer.newPage()
        self._check_file()
        self._number += 1
        self._y = ABOVE

    def _paint_foot(self) -> None:
        styles = self._leaves.dim
        self._painter.setFont(styles.small)
        self._painter.setPen(QColor(styles.colors.ink))
        place = QRectF(SIDE, self._high - FOOT - 10, self._wide - 2 * SIDE, 20)
        self._painter.drawText(place, Qt.AlignmentFlag.AlignCenter, f"{self._number}")

    def _check_file(self) -> None:
        if self._file.error() is not QFileDevice.FileError.NoError:
            raise OSError(0, self._file.errorString())


class PdfPress(QObject):
    """`app.chat.exchange.exporting.Press`, by the window's own means."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._steps = Steps(self)
        self._pages: Pages | None = None

    def close(self) -> None:
        """The window closes: a writer must not outlive its painter, nor the program both."""
        if self._pages is not None:
            self._pages.abandon()

    def print_chat(self, chat: Chat, choices: Choices, path: Path) -> None:
        from app.chat.exchange.pdf_finish import finish  # pypdf, when somebody saves a PDF

        def begin() -> Pages:
            return Pages(path, chat.title, choices.paper, PaperTheme.like(self._theme))

        pages = self._pages = self._steps.run(begin, chat.check)
        try:
            for part in parts_of_chat(chat, choices):
                is_due = self._steps.run(partial(pages.add, decoded(part)), chat.check)
                while is_due:
                    is_due = self._steps.run(pages.place, chat.check)
            self._steps.run(pages.end, chat.check)
            finish(path, pages.marks)
        except BaseException:
            self._steps.run_last(pages.abandon)
            raise
        self._pages = None
