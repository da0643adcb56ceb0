"""Control vectors that were made here, and the bench where another one is made.

Left the list, right one of them, or the form: two groups of examples, one a line. Making one goes
on while the window is closed; closing hides it. Deleting can be undone by the window's own undo.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import EngineStateChanged, VectorsListed
from app.chat.settings.settings import as_stored
from app.chat.weights.control_vectors import examples_in
from app.gguf.vector_file import KnownVector
from ui.look.theme import Theme
from ui.settings.fields import ChoiceField
from ui.shell.window_toasts import WindowToasts
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside
from ui.windows.separation import Separation

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SIZE_PX: Final = (760, 560)
LIST_PX: Final = 200
STACK_BELOW_PX: Final = 600
NEW: Final = "New control vector"
HOW: Final = (
    "Write what the model should move towards, and what it should move away from: one example per "
    "line. The difference behind each layer becomes the vector."
)
METHODS: Final = (("mean", "Difference of means"), ("pca", "Main direction of pairs (PCA)"))
KINDS: Final = (("chat", "Messages"), ("text", "Plain text"))
READING: Final = "Reading example {done} of {total}…"
STARTING: Final = "Starting…"
MADE: Final = "Saved “{name}”. Use it in a chat, then compare with and without."
HINTS: Final = (
    "Be happy. Describe your day.\nAnswer with joy: how is the weather?",
    "Be sad. Describe your day.\nAnswer with sorrow: how is the weather?",
)


class VectorList(QListWidget):
    """Names; Delete deletes the one that is chosen."""

    delete_requested = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Delete:
            self.delete_requested.emit()
        else:
            super().keyPressEvent(event)


class VectorsWindow(WindowBeside):
    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, "vectors_window", "Control vectors", parent)
        self._desk = desk
        self._vectors: tuple[KnownVector, ...] = ()
        self._why_not = ""
        self.list = VectorList(self)
        self.list.setObjectName("vector_list")
        self.list.setAccessibleName("Control vectors")
        self.list.currentRowChanged.connect(lambda _: self._show_chosen())
        self.list.itemActivated.connect(lambda _: self._on_use())
        self.list.delete_requested.connect(self._on_delete)
        self.new_button = push_button("New…", self, "new_vector_button", act=self.show_form)
        self._left = QWidget(self)
        left = QVBoxLayout(self._left)
        left.setContentsMargins(0, 0, 0, 0)
        left.addWidget(self.list, 1)
        left.addWidget(self.new_button)
        self.pages = QStackedWidget(self)
        self.pages.addWidget(self._build_form())
        self.pages.addWidget(self._build_one())
        card = QFrame(self)
        card.setProperty("plane", "card")
        inner = QVBoxLayout(card)
        inner.addWidget(self.pages)
        self._columns = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._columns.addWidget(self._left)
        self._columns.addWidget(card, 1)
        self.toasts = WindowToasts(desk, bridge, theme, self)
        self.toasts.focus_released.connect(self.list.setFocus)
        bridge.on(VectorsListed, self._on_listed)
        bridge.on(EngineStateChanged, self._show_making)
        theme.changed.connect(self._arrange)
        theme.space(self._columns, 12, margins=16)
        theme.space(left, 8)
        theme.space(inner, 0, margins=(16, 14))
        self._arrange()
        ZoomedSize(self, theme, SIZE_PX)
        self._show_chosen()

    # --- building ---------------------------------------------------------------------------------

    def _build_form(self) -> QWidget:
        form = QWidget(self)
        self.name_field = QLineEdit(form)
        self.name_field.setPlaceholderText("Name, such as “More cheerful”")
        self.name_field.setAccessibleName("Name of the new control vector")
        self.name_field.setObjectName("vector_name")
        self.examples: list[QPlainTextEdit] = []
        column = QVBoxLayout(form)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(plain_label(NEW, form, "strong"))
        column.addWidget(plain_label(HOW, form, "small", wraps=True))
        column.addWidget(self.name_field)
        self._groups = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        for title, hint in zip(("Towards", "Away from"), HINTS, strict=True):
            group = QVBoxLayout()
            field = QPlainTextEdit(form)
            field.setPlaceholderText(hint)
            field.setTabChangesFocus(True)
            field.setAccessibleName(f"{title}: examples, one per line")
            field.setObjectName(f"vector_{title.lower().replace(' ', '_')}")
            field.textChanged.connect(self._count)
            count = plain_label(title, form, "small")
            group.addWidget(count)
            group.addWidget(field, 1)
            self._theme.space(group, 4)
            self._groups.addLayout(group, 1)
            field.setProperty("count", count)
            self.examples.append(field)
        column.addLayout(self._groups, 1)
        self.method = ChoiceField(self._theme, METHODS, form)
        self.kind = ChoiceField(self._theme, KINDS, form)
        for choice, label, first in ((self.method, "Method", "mean"), (self.kind, "Kind", "chat")):
            choice.name_choices(label)
            choice.show_value(first)
            column.addWidget(choice)
        self.kind.setToolTip(
            "Messages are read with this chat's system prompt and template, as far as the reply."
        )
        self.make_button = push_button(
            "Make", form, "make_button", kind="primary", act=self._on_make
        )
        self.stop_button = push_button("Stop", form, "stop_making_button", act=self._on_stop)
        self.words = plain_label("", form, "small", name="making_words", wraps=True)
        row = QHBoxLayout()
        row.addWidget(self.words, 1)
        row.addWidget(self.stop_button)
        row.addWidget(self.make_button)
        column.addLayout(row)
        self._theme.space(column, 8)
        self._theme.space(self._groups, 12)
        self._theme.space(row, 8)
        self.stop_button.hide()
        return form

    def _build_one(self) -> QWidget:
        one = QWidget(self)
        self.rename_field = QLineEdit(one)
        self.rename_field.setAccessibleName("Name of the control vector")
        self.rename_field.setObjectName("rename_vector")
        self.rename_field.editingFinished.connect(self._on_renamed)
        self.facts = plain_label("", one, "small", name="vector_facts", wraps=True)
        self.separation = Separation(self._theme, one)
        self.shown_examples = plain_label("", one, name="vector_examples", wraps=True)
        self.shown_examples.setAlignment(Qt.AlignmentFlag.AlignTop)
        flags = Qt.TextInteractionFlag
        self.shown_examples.setTextInteractionFlags(
            flags.TextSelectableByMouse | flags.TextSelectableByKeyboard
        )
        scroll = SteadyArea(one)
        scroll.setWidgetResizable(True)
        scroll.setWidget(self.shown_examples)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.shown_examples.setAutoFillBackground(False)
        scroll.viewport().setAutoFillBackground(False)
        self.use_button = push_button(
            "Use in this chat", one, "use_vector_button", kind="primary", act=self._on_use
        )
        acts = [
            self.use_button,
            push_button("Make another from it…", one, "copy_vector_button", act=self._on_copy),
            push_button("Export…", one, "export_vector_button", act=self._on_export),
            push_button("Delete", one, "delete_vector_button", kind="danger", act=self._on_delete),
        ]
        box = QWidget(one)
        policy = box.sizePolicy()
        policy.setHeightForWidth(True)
        box.setSizePolicy(policy)
        flow = FlowLayout(box)
        for button in acts:
            flow.addWidget(button)
        column = QVBoxLayout(one)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.rename_field)
        column.addWidget(self.facts)
        column.addWidget(self.separation)
        column.addWidget(scroll, 1)
        column.addWidget(box)
        self._theme.space(column, 10)
        self._theme.space(flow, 8)
        return one

    # --- showing ----------------------------------------------------------------------------------

    def open(self) -> None:
        self._desk.vectors.list()
        self._show_making()
        is_form = self.pages.currentIndex() == 0
        self.come_forward(self.name_field if is_form else self.list)

    def show_form(self) -> None:
        self.list.blockSignals(True)
        self.list.setCurrentRow(-1)
        self.list.blockSignals(False)
        self.pages.setCurrentIndex(0)
        self.name_field.setFocus()

    def _on_listed(self, event: VectorsListed) -> None:
        chosen = self._chosen()
        self._vectors = event.vectors
        self.list.blockSignals(True)
        self.list.clear()
        for vector in self._vectors:
            QListWidgetItem(vector.name, self.list)
        paths = [vector.path for vector in self._vectors]
        row = paths.index(chosen.path) if chosen is not None and chosen.path in paths else -1
        self.list.setCurrentRow(row)
        self.list.blockSignals(False)
        self._show_chosen()

    def _chosen(self) -> KnownVector | None:
        row = self.list.currentRow()
        return self._vectors[row] if 0 <= row < len(self._vectors) else None

    def _show_chosen(self) -> None:
        vector = self._chosen()
        self.pages.setCurrentIndex(int(vector is not None))
        if vector is None:
            return
        facts = vector.facts
        self.rename_field.setText(vector.name)
        self.rename_field.setCursorPosition(0)
        self.facts.setText(_facts_words(vector, self._desk.loader.weights_hash))
        self.separation.show_layers(facts.separation)
        groups = (("Towards", facts.positive), ("Away from", facts.negative))
        self.shown_examples.setText(
            "\n\n".join(f"{title}\n" + "\n".join(texts) for title, texts in groups if texts)
        )

    def _count(self) -> None:
        for field, title in zip(self.examples, ("Towards", "Away from"), strict=True):
            n_examples = len(examples_in(field.toPlainText()))
            field.property("count").setText(f"{title} · {n_examples}" if n_examples else title)

    def _show_making(self) -> None:
        is_making = bool(self._desk.vectors.making)
        self.stop_button.setVisible(is_making)
        remote = self._desk.loader.remote
        why = "" if remote is None else remote.why_not("vectors")
        if self._why_not != why:
            self._why_not = why
            self.words.setText(why)
        self.make_button.setEnabled(not is_making and not why)

    # --- acts -------------------------------------------------------------------------------------

    def _on_make(self) -> None:
        towards, away = (examples_in(field.toPlainText()) for field in self.examples)
        self.words.setText(STARTING)
        method = "pca" if self.method.value() == "pca" else "mean"
        self._desk.vectors.make(
            self.name_field.text(),
            towards,
            away,
            method,  # type: ignore[arg-type]
            self._on_made,
            self._on_failed,
            lambda done, total: self.words.setText(READING.format(done=done, total=total)),
            is_chat=self.kind.value() == "chat",
        )
        self._show_making()

    def _on_made(self, vector: KnownVector) -> None:
        self.words.setText("")
        if (
            " ".join(self.name_field.text().split()) == vector.name
        ):  # else another one is being written
            self.name_field.clear()
            for field in self.examples:
                field.clear()
        self._show_making()
        self.list.setCurrentRow([v.path for v in self._vectors].index(vector.path))
        self.facts.setText(f"{MADE.format(name=vector.name)}\n{self.facts.text()}")

    def _on_failed(self, sentence: str) -> None:
        self.words.setText(sentence)
        self._show_making()

    def _on_stop(self) -> None:
        self._desk.vectors.stop()
        self.words.setText("Stopped.")
        self._show_making()
        self.make_button.setFocus()

    def _on_use(self) -> None:
        """One more of the open chat's; it counts from the next reply on."""
        vector = self._chosen()
        if vector is None:
            return
        now = as_stored(self._desk.levels.resolved().settings.control_vectors)
        if isinstance(now, list):
            self._desk.levels.change("chat", "control_vectors", [*now, {"path": vector.path}])
        self.close()

    def _on_copy(self) -> None:
        vector = self._chosen()
        if vector is None:
            return
        facts = vector.facts
        for field, texts in zip(self.examples, (facts.positive, facts.negative), strict=True):
            field.setPlainText("\n".join(text.replace("\n", "\\n") for text in texts))
        self.method.show_value(facts.method)
        self.kind.show_value("chat" if facts.is_chat else "text")
        self.name_field.setText(vector.name)
        self.show_form()

    def _on_renamed(self) -> None:
        vector = self._chosen()
        if vector is not None and self.rename_field.text() != vector.name:
            self._desk.vectors.rename(vector.path, self.rename_field.text())
            self._show_chosen()

    def _on_delete(self) -> None:
        vector = self._chosen()
        if vector is not None:
            self._desk.vectors.delete(vector.path)

    def _on_export(self) -> None:
        vector = self._chosen()
        if vector is None:
            return
        dialog = QFileDialog(self, "Export a control vector", str(Path.home()))
        dialog.setObjectName("export_vector_dialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("gguf")
        dialog.selectFile(Path(vector.path).name)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        export = partial(self._desk.vectors.export, vector.path)
        dialog.fileSelected.connect(lambda path: export(Path(path)))
        dialog.open()

    # --- size -------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Side by side where there is room, else the list above."""
        px, most = self._theme.px, 16_777_215
        is_narrow = self.width() < px(STACK_BELOW_PX)
        direction = QBoxLayout.Direction
        beside = direction.TopToBottom if is_narrow else direction.LeftToRight
        self._columns.setDirection(beside)
        self._left.setMaximumSize(
            most if is_narrow else px(LIST_PX), px(110) if is_narrow else most
        )
        self._left.setMinimumWidth(0 if is_narrow else px(LIST_PX))


def _facts_words(vector: KnownVector, weights_hash: str) -> str:
    facts = vector.facts
    method = dict(METHODS).get(facts.method, facts.method).lower()
    n_examples = f"{len(facts.positive)} and {len(facts.negative)} examples"
    words = f"Made with {facts.weights_name or 'a model'}, {method}, {n_examples}."
    if weights_hash and facts.weights_hash and weights_hash != facts.weights_hash:
        words += " The loaded model is another one: this vector means nothing in it."
    return words
