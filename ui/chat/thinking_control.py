"""The composer's control for thinking: a button that says what counts, and its menu.

It is there where the chat's template knows something about reasoning, or where the reasoning of the
next reply has been begun. What can be chosen comes from the template; where the choice goes (the
next reply, the chat, the model) is chosen in the same menu.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QPoint
from PySide6.QtGui import QAction, QActionGroup, QIntValidator
from PySide6.QtWidgets import QDialogButtonBox, QInputDialog, QLineEdit, QMenu

from app.chat.events import ThinkingChanged
from app.chat.settings.thinking import Scope
from app.engine.protocol.thinking_messages import AUTO, OFF, ON
from ui.shell.actions import Action, Actions
from ui.widgets.elided import tip_text
from ui.widgets.icon_button import IconButton

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.look.theme import Theme

KEY: Final = "Ctrl+Alt+K"
LIMIT_KEY: Final = "Ctrl+Alt+Shift+K"
BEGIN_KEY: Final = "Ctrl+Alt+R"
_KEYS: Final = {AUTO: "Ctrl+Alt+U", ON: "Ctrl+Alt+Y", OFF: "Ctrl+Alt+N"}
SCOPES: Final[tuple[tuple[Scope, str], ...]] = (
    ("message", "Next reply only"),
    ("chat", "This chat"),
    ("weights", "This model, in all chats"),
)
LIMITS: Final = (256, 1_024, 4_096, 16_384)
MOST: Final = 10_000_000
LONGEST: Final = 17
"""Of the words on the button; the composer has no room for more."""

_LEVELS: Final = {"message": "next reply", "chat": "this chat", "weights": "this model"}


def choice_words(name: str) -> str:
    """A choice as it stands in the menu; an effort is whatever a template calls it.

    >>> choice_words("off"), choice_words("xhigh"), choice_words("z" * 60)
    ('Off', 'Xhigh', 'Zzzzzzzzzzzzzzzz…')
    """
    words = {AUTO: "Auto", ON: "On", OFF: "Off"}.get(name, name[:1].upper() + name[1:])
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


class ThinkingControl(QObject):
    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._theme = theme
        self._chat = chat
        self.button = IconButton(theme, "brain", "Thinking", text="Auto")
        self.button.setObjectName("thinking_button")
        self.menu = QMenu(self.button)
        self.menu.setObjectName("thinking_menu")
        self.menu.aboutToShow.connect(self._fill)
        self.button.setMenu(self.menu)
        chat.composer.add_control(self.button)
        bridge.on(ThinkingChanged, self.show)
        self.show()

    def add_actions(self, actions: Actions) -> None:
        def choose(name: str, title: str) -> Action:
            return Action(
                f"thinking_{name or 'auto'}",
                title,
                _KEYS[name],
                partial(self._desk.thinking.choose, name),
                partial(self._offers, name),
            )

        def is_there() -> bool:
            return self.button.isVisible()

        actions.add(Action("thinking", "Thinking…", KEY, self.open, is_there))
        actions.add(choose(AUTO, "Thinking: auto"))
        actions.add(choose(ON, "Thinking: on"))
        actions.add(choose(OFF, "Thinking: off"))
        actions.add(
            Action("limit_reasoning", "Limit reasoning…", LIMIT_KEY, self.ask_limit, is_there)
        )
        actions.add(
            Action(
                "begin_reasoning", "Start the reasoning yourself…", BEGIN_KEY, self.begin, is_there
            )
        )

    def _offers(self, name: str) -> bool:
        choices = self._desk.thinking.offer.choices
        return bool(choices) and (not name or name in choices)

    # --- acts -----------------------------------------------------------------------------------

    def open(self) -> None:
        """Show the menu above its button, with the keyboard in it."""
        if self.button.isVisible():
            self._fill()
            corner = self.button.mapToGlobal(self.button.rect().topLeft())
            self.menu.popup(corner - QPoint(0, self.menu.sizeHint().height()))

    def ask_limit(self) -> None:
        """Any number of tokens."""
        dialog = QInputDialog(self._chat.window())
        dialog.setObjectName("reasoning_limit_dialog")
        dialog.setWindowTitle("Limit reasoning")
        dialog.setLabelText("Tokens of reasoning before the model has to answer")
        dialog.setTextValue(str(self._desk.thinking.limit or LIMITS[1]))
        dialog.textValueSelected.connect(lambda text: self._desk.thinking.limit_to(int(text)))
        dialog.finished.connect(self._chat.composer.focus)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
        # A whole number, as a line: a sheet leaves a spin box no room for its digits.
        field, buttons = dialog.findChild(QLineEdit), dialog.findChild(QDialogButtonBox)
        assert field is not None
        assert buttons is not None
        field.setAccessibleName(dialog.labelText())
        field.setValidator(QIntValidator(1, MOST, field))
        save = buttons.button(QDialogButtonBox.StandardButton.Ok)
        field.textChanged.connect(lambda text: save.setEnabled(text.strip("0") != ""))

    def begin(self) -> None:
        from ui.chat.reasoning_start import ReasoningStart

        thinking = self._desk.thinking
        dialog = ReasoningStart(self._theme, thinking.thoughts, self._chat.window())
        dialog.written.connect(thinking.begin_with)
        dialog.finished.connect(self._chat.composer.focus)
        dialog.open()

    # --- showing --------------------------------------------------------------------------------

    def show(self) -> None:
        thinking = self._desk.thinking
        offer, chosen = thinking.offer, thinking.chosen
        is_known = chosen in offer.choices
        word = choice_words(chosen if is_known else AUTO)
        if thinking.thoughts:  # which is on, whatever was chosen
            word = "Started" if chosen == OFF else f"{word} · started"
        said = [f"Thinking: {word}"]
        if offer.choices and not is_known and offer.auto:
            said[0] += f" ({offer.auto})"
        if is_known and thinking.chosen_at in _LEVELS:
            said[0] += f", {_LEVELS[thinking.chosen_at]}"
        if thinking.limit:
            said.append(f"Reasoning ends after {thinking.limit:,} tokens")
        if thinking.thoughts:
            said.append(f"Starts with “{_short(thinking.thoughts)}”")
        self.button.setText(f" {_without_keys(word)}")
        self.button.setAccessibleName(said[0])
        self.button.setAccessibleDescription(". ".join(said[1:]))
        self.button.setToolTip(tip_text("\n".join(said)))
        self.button.set_lit((is_known and chosen != OFF) or bool(thinking.thoughts))
        self.button.setVisible(offer.has_reasoning or bool(thinking.thoughts))

    def _fill(self) -> None:
        menu, thinking = self.menu, self._desk.thinking
        menu.clear()
        offer, chosen = thinking.offer, thinking.chosen
        if offer.choices:
            _head(menu, "Thinking")
            auto = f"Auto ({offer.auto})" if offer.auto else "Auto"
            names = [
                (AUTO, auto),
                *((name, choice_words(name)) for name in _in_order(offer.choices)),
            ]
            counts = chosen if chosen in offer.choices else AUTO
            self._group(menu, names, counts, thinking.choose)
            menu.addSeparator()
        limits = menu.addMenu("Limit reasoning")
        known = sorted({*LIMITS, thinking.limit} - {0})
        rows = [(0, "No limit"), *((n, f"{n:,} tokens") for n in known)]
        self._group(limits, rows, thinking.limit, thinking.limit_to)
        limits.addAction("Other…").triggered.connect(self.ask_limit)
        begun = (
            "Edit the start of the reasoning…"
            if thinking.thoughts
            else ("Start the reasoning yourself…")
        )
        menu.addAction(begun).triggered.connect(self.begin)
        if thinking.thoughts:
            menu.addAction("Let the model start").triggered.connect(lambda: thinking.begin_with(""))
        _head(menu, "Applies to")
        self._group(menu, SCOPES, thinking.scope, self._set_scope)

    def _group(
        self,
        menu: QMenu,
        rows: Iterable[tuple[object, str]],
        current: object,
        act: Callable[..., object],
    ) -> None:
        """One of these is checked; choosing another does it."""
        group = QActionGroup(menu)
        for value, words in rows:
            entry = QAction(_without_keys(words), group)
            entry.setCheckable(True)
            entry.setChecked(value == current)
            entry.triggered.connect(lambda _checked, value=value: act(value))
            menu.addAction(entry)

    def _set_scope(self, scope: Scope) -> None:
        self._desk.thinking.scope = scope


def _head(menu: QMenu, words: str) -> None:
    """Words above a group; a section of Qt's shows none in most styles."""
    menu.addSeparator()
    menu.addAction(words).setEnabled(False)


def _in_order(choices: Iterable[str]) -> list[str]:
    """On before off, as everywhere; then the efforts."""
    found = list(choices)
    return [name for name in (ON, OFF) if name in found] + [
        name for name in found if name not in (ON, OFF)
    ]


def _without_keys(words: str) -> str:
    """Qt takes what stands behind an & for a key."""
    return words.replace("&", "&&")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:60] + "…"
