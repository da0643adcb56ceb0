"""The tags of the chats that are listed, above them: a click shows only the chats that have one.

Several together narrow further. It has no room while there is no tag at all, and never more than
two lines: what does not fit is in the menu at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction, QContextMenuEvent, QResizeEvent
from PySide6.QtWidgets import QMenu, QPushButton, QWidget

from app.chat.conversations.tagging import KnownTag, key_of, most_used
from ui.look.theme import Theme
from ui.shell.tab_order import put_in_order
from ui.widgets.elided import tip_text
from ui.widgets.flow import FlowLayout
from ui.widgets.hovering import let_go_after
from ui.widgets.icon_button import IconButton

MOST_LINES = 2
MOST_CHIPS = 60
"""More have no place in two lines, however wide they are."""
MOST_IN_MENU = 100
"""The others are found by the search."""
MOST_WORDS = 18
"""Characters of a tag in the bar; its tooltip has all."""


class TagBar(QWidget):
    """`chosen_changed` carries the keys (`key_of`) of the tags that a chat must have."""

    chosen_changed = Signal(object)
    manage_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._tags: tuple[KnownTag, ...] = ()
        self._chosen: frozenset[str] = frozenset()
        self.setObjectName("tag_bar")
        self.setAccessibleName("Filter by tags")
        self._flow = FlowLayout(self)
        self._chips: list[QPushButton] = []
        self.more_button = IconButton(
            theme, "dots-three-bold", "More tags", hint="All tags", parent=self
        )
        self.more_button.setObjectName("more_tags_button")
        self.more_button.clicked.connect(self._show_menu)
        theme.size(self.more_button, 24, 24)
        theme.space(self._flow, 4)
        theme.changed.connect(self._dress)
        self._dress()

    @property
    def chosen(self) -> frozenset[str]:
        return self._chosen

    def show_tags(self, tags: Sequence[KnownTag]) -> None:
        """Those there are. What is gone is chosen no longer."""
        if tuple(tags) == self._tags:
            return
        self._tags = tuple(tags)
        self._make_chips()
        self.choose(self._chosen)

    def choose(self, keys: Iterable[str]) -> None:
        there = {key_of(tag.name) for tag in self._tags}
        before, self._chosen = self._chosen, frozenset(keys) & there
        if not self._chosen <= {chip.property("tag") for chip in self._chips}:
            self._make_chips()
        for chip in self._chips:
            chip.setChecked(chip.property("tag") in self._chosen)
        if before != self._chosen:
            self._arrange()
            self.chosen_changed.emit(self._chosen)

    def toggle(self, key: str) -> None:
        self.choose(self._chosen ^ {key})

    def _make_chips(self) -> None:
        focused = next((c.property("tag") for c in self._chips if c.hasFocus()), None)
        while self._flow.count():
            self._flow.takeAt(0)
        for chip in self._chips:
            chip.hide()
            chip.deleteLater()
        tags = self._tags
        chosen = [tag for tag in tags[MOST_CHIPS:] if key_of(tag.name) in self._chosen]
        self._chips = [self._chip(tag) for tag in (*tags[:MOST_CHIPS], *chosen)]
        for widget in (*self._chips, self.more_button):
            self._flow.addWidget(widget)
        put_in_order([*self._chips, self.more_button], self.more_button)
        for chip in self._chips:
            if chip.property("tag") == focused:
                chip.setFocus(Qt.FocusReason.OtherFocusReason)
        self._arrange()

    def _chip(self, tag: KnownTag) -> QPushButton:
        short = tag.name if len(tag.name) <= MOST_WORDS else tag.name[: MOST_WORDS - 1] + "…"
        chip = QPushButton(short.replace("&", "&&"), self)
        chip.setObjectName("tag_chip")
        chip.setProperty("tag", key_of(tag.name))
        chip.setProperty("kind", "tag")
        chip.setCheckable(True)
        chip.setAutoDefault(False)
        chats = "1 chat" if tag.n_chats == 1 else f"{tag.n_chats:,} chats"
        chip.setAccessibleName(f"Only chats tagged {tag.name}, {chats}")
        chip.setToolTip(tip_text(f"Show only chats tagged #{tag.name} ({chats})"))
        chip.clicked.connect(partial(self.toggle, key_of(tag.name)))
        return chip

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._arrange()

    def _dress(self) -> None:
        self.setStyleSheet(_sheet(self._theme))
        self._arrange()

    def _arrange(self) -> None:
        """Two lines of chips, the chosen ones always among them; the others in the menu."""
        if not self._tags:
            self.hide()
            return
        px = self._theme.px
        self.setContentsMargins(px(8), 0, px(10), px(2))
        room, gap = max(px(60), self.width() - px(18)), px(4)
        x, line = 0, 1
        is_all = len(self._chips) == len(self._tags)
        for chip in sorted(self._chips, key=lambda each: not each.isChecked()):
            width = min(chip.sizeHint().width(), room)
            if x and x + width > room:
                x, line = 0, line + 1
            # The last line keeps a place for the menu.
            fits = line < MOST_LINES or (line == MOST_LINES and x + width + gap + px(24) <= room)
            if fits or chip.isChecked():
                x += width + gap
                chip.show()
            else:
                is_all = False
                line = MOST_LINES + 1
                chip.hide()
        self.more_button.setVisible(not is_all or bool(self._chosen) or len(self._tags) > 1)
        self.show()
        self.updateGeometry()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self._popup(event.globalPos())

    def open_menu(self) -> None:
        self._popup(self.mapToGlobal(self.rect().bottomLeft()))

    def _show_menu(self) -> None:
        self._popup(self.more_button.mapToGlobal(self.more_button.rect().bottomLeft()))

    def _popup(self, place: QPoint) -> None:
        menu = self.tag_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        let_go_after(menu, self.more_button)
        menu.popup(place)

    def tag_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setObjectName("tag_menu")
        for tag in most_used(self._tags, MOST_IN_MENU):
            entry = QAction(f"{tag.name.replace('&', '&&')}\t{tag.n_chats:,}", menu)
            entry.setCheckable(True)
            entry.setChecked(key_of(tag.name) in self._chosen)
            entry.triggered.connect(partial(self.toggle, key_of(tag.name)))
            menu.addAction(entry)
        menu.addSeparator()
        clear = menu.addAction("Show all chats", partial(self.choose, ()))
        clear.setEnabled(bool(self._chosen))
        menu.addAction("Rename or delete tags…", self.manage_requested.emit)
        return menu


def _sheet(theme: Theme) -> str:
    px, colors = theme.px, theme.colors
    return (
        f"#tag_chip {{ background: transparent; border: 1px solid {colors.line};"
        f" border-radius: {px(10)}px; color: {colors.dim}; padding: {px(1)}px {px(8)}px;"
        f" font-size: {px(theme.small_px)}px; min-height: {px(18)}px; }}"
        f"#tag_chip:hover {{ background: {colors.hover}; }}"
        f"#tag_chip:focus {{ border-color: {colors.accent}; }}"
        f"#tag_chip:checked {{ background: {colors.accent_tone}; color: {colors.ink};"
        f" border-color: {colors.accent}; }}"
    )
