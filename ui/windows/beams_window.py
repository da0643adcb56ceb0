"""A beam search beside the chat: what to search, its tree as it grows, and the texts it found.

The tree and the list show the same node as the current one; *Use as reply* takes its text. A window
of its own: it stays while one chats on, and a search goes on where it is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QSplitter,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import BeamsChanged, ConversationOpened, EngineStateChanged, PathChanged
from app.chat.replies.beams import BeamOptions, Origin
from app.engine.protocol.beam_messages import MAX_LENGTH, MAX_LENGTH_PENALTY, MAX_WIDTH
from ui.look.theme import Theme
from ui.section.drag_number import DragNumber
from ui.shell.notices import announce
from ui.widgets.check_box import CheckBox
from ui.widgets.elided import tip_text
from ui.widgets.figures import seconds_text
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button, rest_timer
from ui.widgets.steady_area import SteadyArea
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beam_tree import BeamTreeView
from ui.windows.beside import WindowBeside

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SIZE_PX: Final = (860, 560)
SHOW_AFTER_MS: Final = 60
"""Steps that come faster are shown together."""

TREE_PX: Final = 150
LIST_PX: Final = 110
NARROW_PX: Final = 560

LAST_QUESTION: Final = "Continues from the last question."
CARET: Final = "Continues from the cursor."
FROM_TOKEN: Final = "Continues before token {place:,} of the chosen reply."
READING: Final = "Processing prompt: {done:,} of {total:,} tokens."
STARTING: Final = "Starting the search."
SEARCHING: Final = "Step {step:,} of {length:,}: {texts}."
FOUND: Final = "{texts} in {steps} ({time})."
ENDED: Final = {
    "length": "",
    "finished": " Every beam has ended.",
    "bound": " No other beam can overtake the best.",
}
CAPTION: Final = (
    "Probabilities before samplers, at temperature 1. Score = Σ log p ÷ tokens^{penalty:g}. "
    "Filled: kept. Dashed: pruned. Bar below: greedy."
)
COLUMNS: Final = ("Rank", "Text", "Σ log p", "Score", "Tokens", "Ended")
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_NODE: Final = Qt.ItemDataRole.UserRole
_FATES: Final = {
    "finished": "End token",
    "cut off": "Length",
    "alive": "",
    "pruned": "Pruned",
    "greedy": "Length",
}


class _Halves(QSplitter):
    """Takes what is left; where less is left than its parts need, the page around it scrolls."""

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()


class BeamsWindow(WindowBeside):
    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, "beams_window", "Beam search", parent)
        self._desk = desk
        self._origin: Origin | None = None
        self._soon = rest_timer(self, self._show, SHOW_AFTER_MS)
        self._make()
        self._build()
        bridge.on(BeamsChanged, self._on_changed)
        theme.changed.connect(self._fit)
        bridge.on((ConversationOpened, PathChanged, EngineStateChanged), self._on_elsewhere)
        ZoomedSize(self, theme, SIZE_PX)
        self._show()

    # --- building -------------------------------------------------------------------------------

    def _make(self) -> None:
        theme, options = self._theme, self._desk.beams.options
        self.width_field = self._number("Beams", "beam_width", options.width, (1, MAX_WIDTH))
        self.length_field = self._number("Length", "beam_length", options.length, (1, MAX_LENGTH))
        self.penalty_field = self._number(
            "Length penalty",
            "beam_penalty",
            options.length_penalty,
            (0, MAX_LENGTH_PENALTY),
            is_whole=False,
        )
        self.search_button = push_button(
            "Search", self, "beam_search_button", kind="primary", act=self._on_search
        )
        self.where = plain_label("", self, name="beam_where", wraps=True)
        self.status = plain_label("", self, "small", name="beam_status", wraps=True)
        self.pruned = CheckBox(theme, "Show pruned branches", self)
        self.tree = BeamTreeView(theme, self)
        self.pruned.setObjectName("beam_pruned")
        self.pruned.setChecked(True)
        self.pruned.toggled.connect(self.tree.show_pruned)
        self.list = QTreeWidget(self)
        self.list.setObjectName("beam_list")
        self.list.setAccessibleName("Texts found, best score first")
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setHeaderLabels(list(COLUMNS))
        self.list.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        self.caption = plain_label("", self, "small", name="beam_caption", wraps=True)
        self.use_button = push_button(
            "Use as reply",
            self,
            "beam_use_button",
            hint="Add this text to the chat as a version of the reply (Enter)",
            act=lambda: self._use(self.tree.current),
        )
        self.tree.chosen.connect(self._on_chosen)
        self.tree.taken.connect(self._use)
        self.list.currentItemChanged.connect(lambda item, _: self._on_row(item))
        self.list.itemActivated.connect(lambda item, _: self._use(item.data(0, _NODE)))

    def _number(
        self,
        label: str,
        name: str,
        value: float,
        bounds: tuple[float, float],
        *,
        is_whole: bool = True,
    ) -> DragNumber:
        field = DragNumber(
            is_whole=is_whole, step=1 if is_whole else 0.1, bounds=bounds, parent=self
        )
        field.setObjectName(name)
        field.setAccessibleName(label)
        field.setToolTip(f"{bounds[0]:g} to {bounds[1]:g}")
        field.show_value(value)
        field.returnPressed.connect(self._on_search)
        self._theme.at_most(field, width=72)
        return field

    def _build(self) -> None:
        theme = self._theme
        head = FlowLayout()
        for label, field in (
            ("Beams", self.width_field),
            ("Length in tokens", self.length_field),
            ("Length penalty", self.penalty_field),
        ):
            pair = QWidget(self)
            row = QHBoxLayout(pair)
            row.setContentsMargins(0, 0, 0, 0)
            name = plain_label(label, pair)
            name.setBuddy(field)
            row.addWidget(name)
            row.addWidget(field)
            theme.space(row, 6)
            head.addWidget(pair)
        head.addWidget(self.search_button)
        head.addWidget(self.pruned)
        self.splitter = _Halves(Qt.Orientation.Vertical, self)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.addWidget(self.tree)
        self.splitter.addWidget(self.list)
        self.splitter.setStretchFactor(0, 3)
        self.splitter.setStretchFactor(1, 2)
        foot = QHBoxLayout()
        foot.addWidget(self.caption, 1)
        foot.addWidget(self.use_button, 0, Qt.AlignmentFlag.AlignBottom)
        page = QWidget(self)
        column = QVBoxLayout(page)
        column.addLayout(head)
        column.addWidget(self.where)
        column.addWidget(self.status)
        column.addWidget(self.splitter, 1)
        column.addLayout(foot)
        theme.space(head, 12)
        theme.space(foot, 12)
        theme.space(column, 8, margins=16)
        theme.at_least(self.tree, height=TREE_PX)
        theme.at_least(self.list, height=LIST_PX)
        area = SteadyArea(self)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(page)
        page.setAutoFillBackground(False)
        area.viewport().setAutoFillBackground(False)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(area)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """In a narrow window, or a large zoom, the list shows what matters."""
        is_narrow = self.width() < self._theme.px(NARROW_PX)
        for column in (4, 5):
            self.list.setColumnHidden(column, is_narrow)

    # --- opening --------------------------------------------------------------------------------

    def open(self, origin: Origin | None = None) -> None:
        """At the last question or the cursor, or at a token; a search that runs stays."""
        self._origin = origin
        self._show()
        self.come_forward(self.search_button)

    def _where_from(self) -> Origin | None:
        """A token that was chosen counts as long as its chat is open."""
        origin, shelf = self._origin, self._desk.shelf
        if (
            origin is not None
            and origin.conversation_id == shelf.open.id
            and shelf.is_on_path(origin.message_id)
        ):
            return origin
        return self._desk.beams.origin_here()

    # --- acts -----------------------------------------------------------------------------------

    def _on_search(self) -> None:
        beams = self._desk.beams
        if beams.is_running:
            beams.stop()
            return
        origin = self._where_from()
        if origin is None or beams.why_not():
            self._show()
            return
        values: list[Any] = []
        for field in (self.width_field, self.length_field, self.penalty_field):
            field.tell_now()
            values.append(field.value())
        beams.search(origin, BeamOptions(*values))

    def _use(self, number: int) -> None:
        if number:
            self._desk.beams.use(number)

    def _on_chosen(self, number: int) -> None:
        """The greedy line's row, the first, only where none of the ranked ones is meant."""
        now = self.list.currentItem()
        if now is None or now.data(0, _NODE) != number:
            items = [self.list.topLevelItem(at) for at in range(self.list.topLevelItemCount())]
            found = [item for item in items if item is not None and item.data(0, _NODE) == number]
            if found:
                self.list.setCurrentItem(found[-1])
            else:
                self.list.selectionModel().clear()
        self._say_what_can_be_done()

    def _on_row(self, item: QTreeWidgetItem | None) -> None:
        if item is not None and item.data(0, _NODE) != self.tree.current:
            self.tree.choose(item.data(0, _NODE))
        self._say_what_can_be_done()

    # --- showing --------------------------------------------------------------------------------

    def _on_changed(self) -> None:
        beams = self._desk.beams
        if beams.is_running and beams.tree.step:
            if not self._soon.isActive():
                self._soon.start()
        else:
            self._show()
            if not beams.is_running and self.tree.current == 0 and beams.tree.leaves:
                self.tree.choose(beams.tree.leaves[0])
            if not beams.is_running and self.isVisible():
                announce(self.search_button, self.status.text())

    def _on_elsewhere(self) -> None:
        self._say_where()
        self._say_what_can_be_done()

    def _show(self) -> None:
        self._soon.stop()
        self.tree.show_tree(self._desk.beams.tree)
        self._fill_list()
        self._say_where()
        self._say_state()
        self._say_what_can_be_done()
        self._fit()

    def _fill_list(self) -> None:
        tree, former = self._desk.beams.tree, self.tree.current
        rows = [("Greedy", tree.greedy)] if tree.greedy else []
        rows += [(f"{place}", leaf) for place, leaf in enumerate(tree.leaves, 1)]
        self.list.blockSignals(True)
        self.list.clear()
        for name, number in rows:
            grown = tree.grown[number]
            text = _in_one_line(tree.text(number))
            figures = [
                f"{value:.3f}".replace("-", "−") for value in (grown.node.total, grown.node.score)
            ]
            ended = "End token" if grown.node.is_end else _FATES[tree.fate(number)]
            item = QTreeWidgetItem([name, text, *figures, f"{grown.step}", ended])
            item.setData(0, _NODE, number)
            item.setToolTip(1, tip_text(text))
            spoken = f"{name}: {tree.text(number).decode('utf-8', 'replace')}"
            item.setData(0, Qt.ItemDataRole.AccessibleTextRole, spoken)
            for at in (2, 3, 4):
                item.setTextAlignment(at, _RIGHT)
            self.list.addTopLevelItem(item)
            if number == former:
                self.list.setCurrentItem(item)
        self.list.blockSignals(False)

    def _say_where(self) -> None:
        origin, beams = self._where_from(), self._desk.beams
        why = "" if beams.is_running else beams.why_not()
        if why or origin is None:
            self.where.setText(why)
        elif origin.is_reply:
            self.where.setText(FROM_TOKEN.format(place=(origin.index or 0) + 1))
        else:
            self.where.setText(LAST_QUESTION if origin.message_id else CARET)
        self.search_button.setText("Stop" if beams.is_running else "Search")
        self.search_button.setEnabled(beams.is_running or (not why and origin is not None))
        self.search_button.setToolTip(tip_text(why))

    def _say_state(self) -> None:
        beams = self._desk.beams
        self.status.setText(self._words_of_state())
        self.status.setVisible(bool(self.status.text()))
        self.caption.setText(CAPTION.format(penalty=beams.options.length_penalty))

    def _words_of_state(self) -> str:
        beams, tree = self._desk.beams, self._desk.beams.tree
        n_texts = len(tree.leaves)
        texts = "1 text" if n_texts == 1 else f"{n_texts:,} texts"
        if beams.state == "reading":
            done, total = beams.read
            return READING.format(done=done, total=total) if total else STARTING
        if beams.state == "searching":
            return SEARCHING.format(step=tree.step, length=beams.options.length, texts=texts)
        if beams.state == "found" and tree.found is not None:
            took = seconds_text(tree.found.total_s)
            steps = "1 step" if tree.step == 1 else f"{tree.step:,} steps"
            found = FOUND.format(texts=texts, steps=steps, time=took)
            return " ".join(filter(None, (found + ENDED[tree.found.ended], beams.sentence)))
        return beams.sentence

    def _say_what_can_be_done(self) -> None:
        number = self.tree.current
        self.use_button.setEnabled(number in self._desk.beams.tree.grown)


def _in_one_line(text: bytes) -> str:
    return " ".join(text.decode("utf-8", "replace").replace("\n", " ⏎ ").split())
