"""All terms of the glossary: a list that is searched, and the entry beside it.

The field has the keyboard; the arrow keys move in the list from there, Return shows the live thing.
A list of some terms only (those of a panel) is one click from all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.tour.chapters import Term, glossary
from ui.look.theme import Theme
from ui.section.segments import Segments
from ui.section.term_label import TermLabel
from ui.shell.notices import announce
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside

SIZE_PX: Final = (680, 460)
LIST_PX: Final = 220
STACK_BELOW_PX: Final = 520
ALL: Final = "All terms"
NOTHING: Final = "No matching term."
ALSO: Final = "Also: {}"
OPENS: Final = "Opens the {} panel"
_STEM: Final = 4
"""Words that begin with the same letters are forms of one."""
_TERM: Final = Qt.ItemDataRole.UserRole


class GlossaryWindow(WindowBeside):
    """`show_wanted`: the live thing of a term."""

    show_wanted = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "glossary_window", "Glossary", parent)
        self._some: tuple[Term, ...] = ()
        self._make()
        self._build()
        self.scope.currentChanged.connect(lambda _: self._list())
        self.search.textChanged.connect(lambda _: self._list())
        self.search.installEventFilter(self)
        self.list.currentRowChanged.connect(lambda _: self._show_chosen())
        self.list.itemActivated.connect(lambda _: self._on_show())
        theme.changed.connect(self._arrange)
        self._arrange()
        self._list()
        ZoomedSize(self, theme, SIZE_PX)

    # --- building -------------------------------------------------------------------------------

    def _make(self) -> None:
        theme = self._theme
        self.scope = Segments(theme, [ALL, ""], "Which terms", self)
        self.scope.setObjectName("glossary_scope")
        self.scope.hide()
        self.search = QLineEdit(self)
        self.search.setObjectName("glossary_search")
        self.search.setPlaceholderText("Search terms")
        self.search.setAccessibleName("Search terms")
        self.search.setClearButtonEnabled(True)
        self.list = QListWidget(self)
        self.list.setObjectName("glossary_list")
        self.list.setAccessibleName("Terms")
        self.card = QFrame(self)
        self.card.setProperty("plane", "card")
        self.words = QWidget(self.card)
        self.name = plain_label("", self.words, "title", name="glossary_name", wraps=True)
        self.text = TermLabel("", self.words)
        self.text.setObjectName("glossary_text")
        self.text.setWordWrap(True)
        self.also = plain_label("", self.words, "small", name="glossary_also", wraps=True)
        self.sentence = plain_label("", self.card, "small", name="glossary_sentence", wraps=True)
        self.show_button = push_button(
            "Show me", self.card, "glossary_show", kind="primary", act=self._on_show
        )

    def _build(self) -> None:
        theme = self._theme
        self._left = QWidget(self)
        left = QVBoxLayout(self._left)
        left.setContentsMargins(0, 0, 0, 0)
        left.addWidget(self.search)
        left.addWidget(self.list, 1)
        rows = QVBoxLayout(self.words)
        rows.setContentsMargins(0, 0, 0, 0)
        for label in (self.name, self.text, self.also):
            rows.addWidget(label)
        rows.addStretch(1)
        area = SteadyArea(self.card)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(self.words)
        # Qt has just switched this on; the card shall show.
        self.words.setAutoFillBackground(False)
        area.viewport().setAutoFillBackground(False)
        foot = QHBoxLayout()
        foot.addWidget(self.sentence, 1)
        foot.addWidget(self.show_button, 0, Qt.AlignmentFlag.AlignBottom)
        right = QVBoxLayout(self.card)
        right.addWidget(area, 1)
        right.addLayout(foot)
        self._columns = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._columns.addWidget(self._left)
        self._columns.addWidget(self.card, 1)
        column = QVBoxLayout(self)
        column.addWidget(self.scope, 0, Qt.AlignmentFlag.AlignLeft)
        column.addLayout(self._columns, 1)
        theme.space(column, 8, margins=16)
        theme.space(self._columns, 12)
        theme.space(left, 8)
        theme.space(right, 12, margins=(16, 14))
        theme.space(rows, 8)
        theme.space(foot, 12)

    # --- showing --------------------------------------------------------------------------------

    def open(self, term: Term | None = None, some: Sequence[Term] = (), title: str = "") -> None:
        """At a term. `some`: only these at first, which are called `title`."""
        self._some = tuple(some)
        self.scope.setTabText(1, title)
        self.scope.setVisible(bool(some))
        self.search.clear()
        self.scope.setCurrentIndex(int(bool(some)))
        self._list()
        if term is not None:
            self.choose(term)
        self.come_forward(self.search)

    def choose(self, term: Term) -> None:
        """One that the list leaves out now is found in all of them."""
        if term not in self._listed():
            self.scope.setCurrentIndex(0)
            self.search.clear()
        self.list.setCurrentRow(self._listed().index(term))

    @property
    def term(self) -> Term | None:
        """The one whose entry is shown."""
        item = self.list.currentItem()
        found: Term | None = None if item is None else item.data(_TERM)
        return found

    def say(self, sentence: str) -> None:
        """What to do before it can be shown."""
        self.sentence.setText(sentence)
        announce(self.search, sentence)

    def _listed(self) -> list[Term]:
        return [self.list.item(row).data(_TERM) for row in range(self.list.count())]

    def _list(self) -> None:
        former = self.term
        terms = self._some if self._some and self.scope.currentIndex() else glossary()
        found = matching(self.search.text(), terms)
        self.list.blockSignals(True)
        self.list.clear()
        for term in found:
            item = QListWidgetItem(term.name, self.list)
            item.setData(_TERM, term)
            item.setData(Qt.ItemDataRole.AccessibleDescriptionRole, term.text)
        row = found.index(former) if former in found and not self.search.text() else 0
        self.list.setCurrentRow(row if found else -1)
        self.list.blockSignals(False)
        self._show_chosen()

    def _show_chosen(self) -> None:
        term = self.term
        self.name.setText(NOTHING if term is None else term.name)
        self.text.leave_out("" if term is None else term.name)
        self.text.setText("" if term is None else term.text)
        also = () if term is None else _other_words(term)
        self.also.setText(ALSO.format(", ".join(also)))
        self.also.setVisible(bool(also))
        self.sentence.setText("")
        self.show_button.setEnabled(term is not None)
        panel = "" if term is None else term.show.panel
        self.show_button.setToolTip(OPENS.format(panel) if panel else "")
        if term is not None:
            # The list doesn't have the focus, so what is chosen is said by the field.
            self.search.setAccessibleDescription(f"{term.name}: {term.text}")
            if self.search.hasFocus():
                announce(self.search, f"{term.name}: {term.text}")

    def _on_show(self) -> None:
        if self.term is not None:
            self.show_wanted.emit(self.term)

    # --- keys and size --------------------------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.search and event.type() == QEvent.Type.KeyPress:
            assert isinstance(event, QKeyEvent)
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._on_show()
                return True
            if event.key() in (
                Qt.Key.Key_Up,
                Qt.Key.Key_Down,
                Qt.Key.Key_PageUp,
                Qt.Key.Key_PageDown,
            ):
                QApplication.sendEvent(self.list, event)
                return True
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Side by side where there is room, else the list above."""
        px, most = self._theme.px, 16_777_215
        is_narrow = self.width() < px(STACK_BELOW_PX)
        direction = QBoxLayout.Direction
        self._columns.setDirection(direction.TopToBottom if is_narrow else direction.LeftToRight)
        self._left.setMaximumSize(
            most if is_narrow else px(LIST_PX), px(180) if is_narrow else most
        )
        self._left.setMinimumWidth(0 if is_narrow else px(LIST_PX))


def matching(query: str, terms: Sequence[Term]) -> list[Term]:
    """Those whose name begins so, then by any of their words, then by their text.

    >>> [term.name for term in matching("top-", glossary())][:2]
    ['top-k', 'top-n-sigma']
    """
    wanted = " ".join(query.casefold().split())

    def rank(term: Term) -> int | None:
        words = [term.name.casefold(), *(word.casefold() for word in term.words)]
        if words[0].startswith(wanted):
            return 0
        if any(word.startswith(wanted) for word in words):
            return 1
        if any(wanted in word for word in words):
            return 2
        return 3 if wanted in term.text.casefold() else None

    ranked = [(rank(term), at) for at, term in enumerate(terms)]
    return [terms[at] for rank_, at in sorted((r, at) for r, at in ranked if r is not None)]


def _other_words(term: Term) -> tuple[str, ...]:
    """Other names, not other forms of the same."""
    name = term.name.casefold()

    def is_other(word: str) -> bool:
        plain = word.casefold()
        is_form = plain.rstrip("s") in name or plain[:_STEM] == name[:_STEM]
        return not is_form and not (plain.endswith("s") and word[:-1] in term.words)

    return tuple(filter(is_other, term.words))
