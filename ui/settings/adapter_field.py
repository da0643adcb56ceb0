"""A list of adapter files, each with its scale, and for a control vector the layers it acts on.

The scale is dragged or typed. Files come from a dialog; of control vectors those that were made
here are offered, too, where somebody says which (`offer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QVBoxLayout, QWidget

from app.chat.replies.adapters import names_of
from app.engine.protocol.adapter_messages import MAX_ADAPTERS
from ui.look.theme import Theme
from ui.settings.embedding_field import EmbeddingField
from ui.settings.fields import Field, NumberField
from ui.shell.dialogs import choose_gguf
from ui.shell.tab_order import put_in_order
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button, rest_timer
from ui.widgets.slider import Slider

Kind = Literal["loras", "control_vectors"]
Offer = Callable[[], Sequence[tuple[str, str]]]

SLIDER_STEPS: Final = 20
"""Of a scale of 1."""
SLIDER_SCALE: Final = {"loras": 2, "control_vectors": 4}
"""How far a slider goes to both sides; what is typed may go beyond."""
APPLY_AFTER_MS: Final = 150
"""A slider rests this long before its value is applied."""
_FIELD_PX: Final = 56
_SLIDER_PX: Final = 22
_WORDS: Final = {"loras": "LoRA adapter", "control_vectors": "control vector"}


class ScaleSlider(Slider):
    """`rested` where it has been moved by hand and stays. A press without a move says nothing: a
    slider knows fewer values than may be typed."""

    rested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._is_moved = False
        self._timer = rest_timer(self, self.tell_now, APPLY_AFTER_MS)
        self.sliderReleased.connect(self.tell_now)

    @property
    def is_moving(self) -> bool:
        return self._is_moved or self.isSliderDown()

    def take_move(self) -> None:
        """It has been moved by hand."""
        self._is_moved = True
        if not self.isSliderDown():
            self._timer.start()

    def tell_now(self) -> None:
        self._timer.stop()
        is_moved, self._is_moved = self._is_moved, False
        if is_moved:
            self.rested.emit()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if not self.isSliderDown():
            self.tell_now()


class AdapterRow(QWidget):
    """One file. `changed` says what it is now, `removed` that it is not wanted."""

    changed = Signal(object)
    removed = Signal()

    def __init__(
        self, theme: Theme, kind: Kind, name: str, file: dict[str, Any], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._file = file
        self._is_showing = False
        self.setObjectName("adapter_row")
        self._kind = kind
        self.name = ElidedLabel("", self)
        self.slider = ScaleSlider(self)
        most = SLIDER_SCALE[kind] * SLIDER_STEPS
        self.slider.setRange(-most, most)
        self.slider.setPageStep(SLIDER_STEPS // 2)
        self.slider.setObjectName("adapter_slider")
        self.scale = NumberField(is_whole=False, step=0.1, parent=self)
        self.scale.setObjectName("adapter_scale")
        self.remove = IconButton(theme, "x", "Remove", parent=self)
        first = QHBoxLayout()
        first.addWidget(self.name, 1)
        first.addWidget(self.remove)
        second = QHBoxLayout()
        second.addWidget(plain_label("Scale", self, "small"))
        second.addWidget(self.slider, 1)
        second.addWidget(self.scale)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(first)
        column.addLayout(second)
        self.hash = plain_label("", self, "small", name="adapter_hash")
        column.addWidget(self.hash)
        self.layers: list[NumberField] = []
        if kind == "control_vectors":
            column.addLayout(self._layers(theme))
        self.slider.valueChanged.connect(self._on_slid)
        self.slider.rested.connect(self._tell_slider)
        self.scale.changed_by_user.connect(partial(self._tell, "scale"))
        self.remove.clicked.connect(self.removed)
        theme.space(column, 2)
        theme.space(first, 6)
        theme.space(second, 6)
        theme.size(self.scale, width=_FIELD_PX)
        theme.size(self.slider, height=_SLIDER_PX)
        self.stops = [self.remove, self.slider, self.scale, *self.layers]
        """Where Tab stops, as the eye goes."""
        self.show_name(name)
        self.show_file(file)

    def show_name(self, name: str) -> None:
        self.name.setText(name)
        spoken = f"{_WORDS[self._kind]} {name}"
        for field in (self.slider, self.scale):
            field.setAccessibleName(f"Scale of {spoken}")
        for field, words in zip(self.layers, ("First", "Last"), strict=False):
            field.setAccessibleName(f"{words} layer of {spoken}")
        self.remove.setAccessibleName(f"Remove {spoken}")
        self.remove.setToolTip(f"Remove {spoken}")

    def _layers(self, theme: Theme) -> QHBoxLayout:
        row = QHBoxLayout()
        row.addWidget(plain_label("Layers", self, "small"))
        for name in ("first", "last"):
            field = NumberField(is_whole=True, automatic=0, placeholder=name, parent=self)
            field.setObjectName(f"adapter_{name}")
            field.changed_by_user.connect(partial(self._tell, name))
            theme.size(field, width=_FIELD_PX)
            self.layers.append(field)
            row.addWidget(field)
            if name == "first":
                row.addWidget(plain_label("to", self, "small"))
        row.addStretch(1)
        theme.space(row, 6)
        return row

    def show_file(self, file: dict[str, Any]) -> None:
        self._file = file
        path = str(file["path"])
        known = f"{path}\n{file['hash']}" if file.get("hash") else path
        self.setToolTip(known)
        self.hash.setText(f"Content {file['hash'][:12]}" if file.get("hash") else "")
        self.hash.setVisible(bool(file.get("hash")))
        self._is_showing = True
        if not self.slider.is_moving:
            self.slider.setValue(round(float(file["scale"]) * SLIDER_STEPS))
        self.scale.show_value(file["scale"])
        for field, name in zip(self.layers, ("first", "last"), strict=False):
            field.show_value(file.get(name, 0))
        self._is_showing = False

    def _on_slid(self, place: int) -> None:
        if not self._is_showing:
            self.scale.show_value(place / SLIDER_STEPS)
            self.slider.take_move()

    def _tell_slider(self) -> None:
        self._tell("scale", self.slider.value() / SLIDER_STEPS)

    def _tell(self, name: str, value: object) -> None:
        if self._file.get(name) != value:
            self.changed.emit({**self._file, name: value})


class AdapterField(QWidget):
    """A setting's control. `value()`: a list of objects, as a settings file has them."""

    changed_by_user = Signal(object)

    def __init__(
        self,
        theme: Theme,
        kind: Kind,
        parent: QWidget | None = None,
        *,
        name_of: Callable[[str], str] = lambda path: Path(path).stem,
        offer: Offer = lambda: (),
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._kind: Kind = kind
        self._name_of = name_of
        self._offer = offer
        self._files: list[dict[str, Any]] = []
        self._folder = Path.home()
        self.rows: list[AdapterRow] = []
        words = _WORDS[kind]
        self.add_button = push_button(
            f"Add {words}…", self, f"add_{kind}_button", hint="Choose a GGUF file", act=self._on_add
        )
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.add_button, 0, Qt.AlignmentFlag.AlignLeft)
        theme.space(self._column, 8)
        self.setFocusProxy(self.add_button)

    def show_value(self, value: Any) -> None:
        files = [_plain(each, self._kind) for each in value or ()]
        if [file["path"] for file in files] != [file["path"] for file in self._files]:
            self._files = files
            self._build()
            return
        self._files = files
        for row, file in zip(self.rows, files, strict=True):
            row.show_file(file)

    def value(self) -> object:
        return list(self._files)

    def show_names(self) -> None:
        """Files may be called otherwise by now."""
        for row, name in zip(self.rows, self._names(), strict=True):
            row.show_name(name)

    def _names(self) -> list[str]:
        return names_of([str(file["path"]) for file in self._files], self._name_of)

    def _build(self) -> None:
        for row in self.rows:
            row.blockSignals(True)  # one that loses the focus tells what was typed, of another list
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.rows = []
        for place, (file, name) in enumerate(zip(self._files, self._names(), strict=True)):
            row = AdapterRow(self._theme, self._kind, name, file, self)
            row.changed.connect(partial(self._put, place))
            row.removed.connect(partial(self._put, place, None))
            self._column.insertWidget(place, row)
            self.rows.append(row)
        stops = [stop for row in self.rows for stop in row.stops]
        put_in_order([*stops, self.add_button], self.add_button)
        self.add_button.setEnabled(len(self._files) < MAX_ADAPTERS)

    def _put(self, place: int, file: dict[str, Any] | None) -> None:
        """Another value for a file; None: it is not wanted. What it must hold (`hash`) stays with
        it: only chosen anew it is taken as it is now."""
        files = list(self._files)
        files[place : place + 1] = [] if file is None else [file]
        if file is None:
            self.add_button.setFocus()
        self.changed_by_user.emit(files)

    # --- adding -----------------------------------------------------------------------------------

    def _on_add(self) -> None:
        offered = self._offer()
        if not offered:
            self._choose()
            return
        menu = QMenu(self)
        menu.setObjectName("adapter_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        paths, called = [path for path, _ in offered], dict(offered)
        for path, name in zip(paths, names_of(paths, called.__getitem__), strict=True):
            menu.addAction(name.replace("&", "&&")).triggered.connect(partial(self.add, path))
        menu.addSeparator()
        menu.addAction("Choose a file…").triggered.connect(self._choose)
        menu.popup(self.add_button.mapToGlobal(self.add_button.rect().bottomLeft()))

    def _choose(self) -> None:
        choose_gguf(self, self._folder, self.add)

    def add(self, path: str, *_: object) -> None:
        """One more file, with a scale of 1."""
        self._folder = Path(path).parent
        self.changed_by_user.emit([*self._files, _plain({"path": path}, self._kind)])


def _plain(value: Any, kind: Kind) -> dict[str, Any]:
    """A struct, or what a file has for one, as an object with all its names."""
    if not isinstance(value, dict):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    usual: dict[str, Any] = {"path": "", "scale": 1.0, "hash": ""}
    if kind == "control_vectors":
        usual |= {"first": 0, "last": 0}
    return {**usual, **{name: value[name] for name in usual if name in value}}


AnyField = Field | AdapterField | EmbeddingField
"""What a setting's row may have."""
