"""Whether weights fit, in full: memory of each device by part, and what other settings would do.

One window for a file on this machine, for one on the hub, and for the loaded weights: of those,
what was measured stands beside what was estimated. Free memory is looked at while the window is in
front; everything else comes from the desk's answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import (
    QCloseEvent,
    QHideEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.amounts import bytes_words
from app.chat.events import EngineStateChanged, LevelsChanged, MemoryChanged
from app.engine.planning.fit import Fit, Suggestion
from app.engine.protocol.loading_messages import LoadOptions
from ui.chat.header import LOADED
from ui.library.fit.badge import FitBadge
from ui.library.fit.memory_bars import DeviceRow
from ui.library.fit.wish import FitWish
from ui.library.local.measured_table import MeasuredTable
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.shell.tab_order import put_in_order, stops_in
from ui.widgets.elided import ElidedLabel
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.gguf.header import Header

SIZE_PX: Final = (600, 660)
STACK_BELOW_PX: Final = 480
LOOK_EVERY_MS: Final = 2000
JUDGING: Final = "Reading the header…"
KEPT: Final = "Saved for this model. Applies when it is loaded."
KEPT_LOADED: Final = "Saved for this model. Applies when it is reloaded."
AS_KEPT: Final = "The loaded model uses these settings."
ELSEWHERE: Final = "Settings can be saved once this model is on your computer."
LOOKING: Final = (
    "Looking inside takes up to {size} more, and a reply with parts cut about as much again. Both "
    "are freed after a minute without use."
)
NO_ROOM_TO_LOOK: Final = (
    "Looking inside takes up to {size} more, which isn't free. Choose a smaller context window to "
    "make room for it."
)
_AUTOMATIC: Final = {"n_ctx": 0, "n_gpu_layers": -1}
_KEPT_NAMES: Final = ("flash_attention", "type_k", "type_v", "n_ctx", "n_gpu_layers")
_BEYOND: Final = ("devices", "tensor_split", "split_mode", "main_device", "cpu_moe_layers")


class FitView(WindowBeside):
    """`show_file`, `show_headers` and `show_loaded` bring it to the front; closing hides it."""

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, "fit_view", "Memory", parent, spoken="Memory needed")
        self._desk = desk
        self._path = ""
        self._headers: Sequence[Header] = ()
        self._fit_shown: Fit | None = None
        self._rows: list[DeviceRow] = []
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_EVERY_MS)
        self._timer.timeout.connect(desk.fits.look)
        self._make()
        self._build()
        self._connect(bridge)
        theme.space(self._column, 10, margins=16)
        theme.space(self._cards, 8)
        theme.space(self._device_column, 16)
        theme.space(self._head, 12)
        theme.space(self._buttons, 8)
        theme.space(self._foot, 8)
        for label in (self.why, self.looking, self.status):
            theme.font(label, Theme.font_small)
        self._arrange()
        ZoomedSize(self, theme, SIZE_PX)

    def _make(self) -> None:
        self.title = ElidedLabel("", self)
        self.title.setObjectName("fit_title")
        self.title.setProperty("kind", "title")
        self.badge = FitBadge(self._theme, self)
        self.why = small_label(JUDGING, self, name="fit_why")
        self.why.setTextFormat(Qt.TextFormat.PlainText)
        self.looking = small_label("", self)
        self.looking.setObjectName("fit_looking")
        self.wish = FitWish(self._theme, self)
        self.measured = MeasuredTable(self._theme, self)
        self.suggestions = Suggestions(self._theme, self)
        self.status = small_label("", self, name="fit_status")
        self.use_button = push_button("Save these settings", self, "fit_use_button")
        self.load_button = push_button("Load", self, "fit_load_button", kind="primary")

    def _build(self) -> None:
        self._area = SteadyArea(self)
        self._area.setWidgetResizable(True)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        body = QWidget(self._area)
        self._cards = QVBoxLayout(body)
        self._cards.setContentsMargins(0, 0, 0, 0)
        self._devices = QWidget(body)
        self._device_column = QVBoxLayout(self._devices)
        self._device_column.setContentsMargins(0, 0, 0, 0)
        self._device_column.addWidget(self.looking)
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.addWidget(self.title, 1)
        self._head.addWidget(self.badge)
        self._cards.addLayout(self._head)
        self._cards.addWidget(self.why)
        for widget in (self._devices, self.wish, self.suggestions, self.measured):
            self._cards.addWidget(self._card(widget, body))
        self._cards.addStretch(1)
        self._area.setWidget(body)
        body.setAutoFillBackground(False)
        self._area.viewport().setAutoFillBackground(False)
        self._buttons = QHBoxLayout()
        self._buttons.addStretch(1)
        self._buttons.addWidget(self.use_button)
        self._buttons.addWidget(self.load_button)
        self._foot = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._foot.addWidget(self.status, 1)
        self._foot.addLayout(self._buttons)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._area, 1)
        self._column.addLayout(self._foot)

    def _card(self, widget: QWidget, parent: QWidget) -> QFrame:
        card = QFrame(parent)
        card.setProperty("plane", "card")
        card.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        column = QVBoxLayout(card)
        column.addWidget(widget)
        self._theme.space(column, margins=(14, 12))
        return card

    def _connect(self, bridge: Bridge) -> None:
        self.wish.changed.connect(self._on_wish)
        self.suggestions.used = self._use
        self.use_button.clicked.connect(lambda: self._use(self.wish.options))
        self.load_button.clicked.connect(self._on_load)
        bridge.on(MemoryChanged, self._on_changed)
        bridge.on(EngineStateChanged, self._on_changed)
        bridge.on(LevelsChanged, self._on_changed)
        self._theme.changed.connect(self._arrange)

    # --- what is shown --------------------------------------------------------------------------

    @property
    def fit(self) -> Fit | None:
        """The verdict on screen."""
        return self._fit_shown

    def show_file(self, path: str, name: str = "") -> None:
        """Weights on this machine; of a split set the first part."""
        self._begin(path, (), name or self._desk.loader.name_of(path))
        self.wish.show_options(self._desk.loader.options_of(path))
        self._judge()
        self._open()

    def show_headers(self, headers: Sequence[Header], name: str) -> None:
        """Weights that are elsewhere, by the headers of all their parts."""
        self._begin("", tuple(headers), name)
        self.wish.show_options(self._desk.settings.now.load_options())
        self._judge()
        self._open()

    def show_loaded(self) -> None:
        """The weights that are loaded, or come next."""
        self.show_file(self._desk.loader.path)

    def _begin(self, path: str, headers: tuple[Header, ...], name: str) -> None:
        self._desk.fits.stop(self._take)
        self._path, self._headers = path, headers
        self._fit_shown = None
        self.title.set_text(name)
        self.badge.show_fit(None)
        self.why.setText(JUDGING)
        for widget in (self._devices, self.suggestions):  # they tell of other weights
            _card_of(widget).hide()
        self.status.setText("")
        self._show_measured()
        self._show_acts()

    def _open(self) -> None:
        self.come_forward(self.wish.context_slider)
        self._desk.fits.look()

    def _judge(self) -> None:
        options = self.wish.options
        if self._headers:
            self._desk.fits.stop(self._take)
            self._desk.fits.headers(self._headers, "", self._take, options)
        elif self._path:
            self._desk.fits.file(self._path, self._take, options)

    def _take(self, key: str, fit: Fit) -> None:
        if key != self._path:
            return
        self._fit_shown = fit
        self.badge.show_fit(fit)
        self.why.setText(fit.why)
        self.wish.show_fit(fit)
        self._show_devices(fit)
        self.suggestions.show_all(fit.suggestions, can_keep=bool(self._path))
        _card_of(self.suggestions).setVisible(bool(fit.suggestions))
        put_in_order([*stops_in(self.suggestions), self.use_button], self.use_button)
        self._show_acts()

    def _show_devices(self, fit: Fit) -> None:
        while len(self._rows) < len(fit.devices):
            row = DeviceRow(self._theme, self._devices)
            self._device_column.insertWidget(len(self._rows), row)
            self._rows.append(row)
        for at, row in enumerate(self._rows):
            row.setVisible(at < len(fit.devices))
            if at < len(fit.devices):
                row.show_need(fit.devices[at])
        has_room = fit.can_look or not all(need.fits for need in fit.devices)
        size = bytes_words(fit.looking_bytes)
        self.looking.setText((LOOKING if has_room else NO_ROOM_TO_LOOK).format(size=size))
        _card_of(self._devices).setVisible(bool(fit.devices))

    @property
    def _is_loaded(self) -> bool:
        return bool(self._path) and self._path == self._desk.loader.path

    def _show_measured(self) -> None:
        state = self._desk.loader.state
        loaded = state.loaded if self._is_loaded and state.state in LOADED else None
        if loaded is not None:
            self.measured.show_loaded(loaded, self._desk.fits.machine().devices)
        _card_of(self.measured).setVisible(loaded is not None and bool(self.measured.rows))

    def _show_acts(self) -> None:
        is_here, fit = bool(self._path), self._fit_shown
        kept = self._desk.loader.options_of(self._path) if is_here else None
        is_other = is_here and self.wish.options != kept
        self.use_button.setVisible(is_here)
        self.use_button.setEnabled(is_other)
        self.load_button.setVisible(is_here)
        self.load_button.setText("Reload" if self._is_loaded else "Load")
        self.load_button.setEnabled(fit is not None and bool(fit.devices))
        if not is_here:
            self.status.setText(ELSEWHERE)
        elif is_other or not self.status.text():
            self.status.setText("" if is_other else AS_KEPT)

    # --- acts -----------------------------------------------------------------------------------

    def _on_wish(self, _options: LoadOptions) -> None:
        self._show_acts()
        self._judge()

    def _use(self, options: LoadOptions) -> None:
        """Keep these as the settings of these weights."""
        refusal = ""
        before = self._desk.loader.options_of(self._path)
        for name in (*_KEPT_NAMES, *_BEYOND):
            value = getattr(options, name)
            if value != getattr(before, name):
                kept = _AUTOMATIC.get(name) if value is None else value
                told = name if name in _KEPT_NAMES else f"load.{name}"
                refusal = self._desk.defaults.change(self._path, told, kept) or refusal
        self.wish.show_options(self._desk.loader.options_of(self._path))
        self.status.setText(refusal or (KEPT_LOADED if self._is_loaded else KEPT))
        self._judge()
        self._show_acts()

    def _on_load(self) -> None:
        if self.use_button.isEnabled():
            self._use(self.wish.options)
        self._desk.loader.load(self._path)

    def _on_changed(self, _event: Any = None) -> None:
        if self.isVisible():
            self._show_measured()
            self._show_acts()
            self._judge()

    # --- window ---------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """What is said stands beside the buttons where there is room, else above them."""
        is_stacked = self.width() < self._theme.px(STACK_BELOW_PX)
        direction = QBoxLayout.Direction
        for layout in (self._head, self._foot):
            layout.setDirection(direction.TopToBottom if is_stacked else direction.LeftToRight)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def closeEvent(self, event: QCloseEvent) -> None:
        """What was typed last is applied, even without Return."""
        focus = self.focusWidget()
        if focus is not None:
            focus.clearFocus()
        self._desk.fits.stop(self._take)
        super().closeEvent(event)


class Suggestions(QWidget):
    """Settings that fit, each with its reason and a button. `used` is called with the options."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: tuple[Suggestion, ...] = ()
        self._rows: list[QWidget] = []
        self.used: Any = lambda _options: None
        self.setObjectName("fit_suggestions")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        theme.space(self._column, 10)

    def show_all(self, suggestions: Sequence[Suggestion], *, can_keep: bool) -> None:
        if tuple(suggestions) == self._shown:
            return
        self._shown = tuple(suggestions)
        for row in self._rows:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self._rows = [self._row(each, at, can_keep) for at, each in enumerate(self._shown)]
        for row in self._rows:
            self._column.addWidget(row)

    def _row(self, suggestion: Suggestion, at: int, can_keep: bool) -> QWidget:
        row = QWidget(self)
        words = plain_label(f"Fits with {suggestion.words}", row, wraps=True)
        why = small_label(suggestion.why, row)
        button = push_button(
            "Use these settings",
            row,
            f"fit_suggestion_{at}",
            spoken=f"Use these settings: {suggestion.words}",
            act=lambda: self.used(suggestion.options),
        )
        button.setVisible(can_keep)
        texts = QVBoxLayout()
        texts.addWidget(words)
        texts.addWidget(why)
        line = QHBoxLayout(row)
        line.setContentsMargins(0, 0, 0, 0)
        line.addLayout(texts, 1)
        line.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
        return row


def _card_of(widget: QWidget) -> QWidget:
    card = widget.parentWidget()
    assert card is not None
    return card
