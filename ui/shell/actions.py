"""The one registry of what can be done in the window: name, title, keys, act.

Command palette, shortcut list and menus read it, so whatever is not in it cannot be found by
name. What must hold: a name is given once, a key of the window means one thing, and an action
that is not enabled does nothing, by whichever way it is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from PySide6.QtCore import QEvent, QKeyCombination, QObject, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from shiboken6 import isValid


def always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that can be done.

    `shortcut` is what is shown; `other_keys` do the same. `place` says in words where the key
    works ("In the chat list"), empty: everywhere in the window. `binds` False: a widget hears
    the key itself (Enter in the composer) and the registry only shows it. `is_checked`: it is
    switched on and off, and a menu shows which.
    """

    name: str
    title: str
    shortcut: str
    run: Callable[[], object]
    is_enabled: Callable[[], bool] = always
    group: str = "Chat"
    place: str = ""
    other_keys: tuple[str, ...] = ()
    binds: bool = True
    is_checked: Callable[[], bool] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.shortcut, *self.other_keys) if self.shortcut else self.other_keys


class Actions(QObject):
    """Every action of a window, in the order in which they were added.

    The keys of an action are heard in the whole window, or in `scope` and what it holds. A text
    field that has a meaning of its own for a key of the window (on X11 Ctrl+K deletes to the
    end of the line, Ctrl+E goes there) gives way.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._actions: dict[str, Action] = {}
        self._shortcuts: dict[str, QShortcut] = {}
        self._names: dict[QKeyCombination, str] = {}
        self._given: dict[str, str] = {}
        """Which action a key means everywhere in the window."""
        self._late: list[Callable[[], Iterable[Action]]] = []
        self._in_focus: QWidget | None = None
        self.collisions: list[str] = []
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus_changed)
        self._on_focus_changed(None, application.focusWidget())

    def __iter__(self) -> Iterator[Action]:
        self._add_late()
        return iter(tuple(self._actions.values()))

    def __getitem__(self, name: str) -> Action:
        if name not in self._actions:
            self._add_late()
        return self._actions[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._actions:
            self._add_late()
        return name in self._actions

    def add(self, action: Action, scope: QWidget | None = None) -> None:
        """Raises ValueError for a name that is given already. A key that is given already stays
        with its first action, and is one of the `collisions`."""
        if action.name in self._actions:
            raise ValueError(f"there is an action {action.name!r} already")
        if action.binds and scope is None:
            action = self._with_free_keys(action)
        self._actions[action.name] = action
        if action.binds and not action.place:
            self._given |= {native(key): action.name for key in action.keys}
        if action.binds and action.keys:
            self._shortcuts[action.name] = self._bound(action, scope)
            if scope is None:
                # Escape is different in every field: what is open there is left first.
                keys = (key for key in action.keys if key != "Esc")
                self._names |= {combination(key): action.name for key in keys}

    def add_later(self, make: Callable[[], Iterable[Action]]) -> None:
        """Actions without keys whose names are read from a file: when somebody asks for any."""
        self._late.append(make)

    def _add_late(self) -> None:
        late, self._late = self._late, []
        for make in late:
            for action in make():
                self.add(action)

    def run(self, name: str) -> None:
        """Do it, if it can be done now. What is being typed in a field counts before, for the chat
        where it was typed."""
        action = self[name]
        if (tell_now := getattr(self._in_focus, "tell_now", None)) is not None:
            tell_now()
        if action.is_enabled():
            action.run()

    def hear(self, name: str, is_heard: bool) -> None:
        """Whether the action takes its key. For keys that mean something else at other times,
        as Escape does; others stay heard and do nothing while they are not enabled."""
        self._shortcuts[name].setEnabled(is_heard)

    def fill_menu(self, menu: QMenu, *names: str) -> None:
        """Entries for these actions, with their keys; an empty name is a line between."""
        for name in names:
            if not name:
                menu.addSeparator()
                continue
            action = self[name]
            entry = QAction(action.title, menu)
            if action.shortcut:
                # Shown only: a second bound key would make both ambiguous.
                entry.setText(f"{action.title}\t{native(action.shortcut)}")
            entry.setEnabled(action.is_enabled())
            if action.is_checked is not None:
                entry.setCheckable(True)
                entry.setChecked(action.is_checked())
            entry.triggered.connect(lambda _=False, name=name: self.run(name))
            menu.addAction(entry)

    def _bound(self, action: Action, scope: QWidget | None) -> QShortcut:
        shortcut = QShortcut(scope or self._window)
        shortcut.setKeys([QKeySequence(key) for key in action.keys])
        if scope is not None:
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(lambda name=action.name: self.run(name))
        return shortcut

    def _on_focus_changed(self, _former: QWidget | None, focus: QWidget | None) -> None:
        """Only the widget in focus is asked whether it wants a key for itself."""
        if self._in_focus is not None and isValid(self._in_focus):
            self._in_focus.removeEventFilter(self)
        self._in_focus = focus if focus is not None and focus.window() is self._window else None
        if self._in_focus is not None:
            self._in_focus.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
            return False
        held = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        name = self._names.get(QKeyCombination(held, Qt.Key(event.key())))
        if name is None or not self._shortcuts[name].isEnabled():
            return False
        event.ignore()
        return True

    def _with_free_keys(self, action: Action) -> Action:
        """Two actions on one key would both be deaf: Qt calls that ambiguous."""
        given = {} if action.place else self._given
        lost = [key for key in action.keys if native(key) in given]
        if not lost:
            return action
        self.collisions += [f"{key}: {given[native(key)]} and {action.name}" for key in lost]
        first, *rest = [key for key in action.keys if key not in lost] or [""]
        return replace(action, shortcut=first, other_keys=tuple(rest))


@functools.cache
def native(sequence: str) -> str:
    """A key as the platform's menus write it."""
    return QKeySequence(sequence).toString(QKeySequence.SequenceFormat.NativeText)


def combination(sequence: str) -> QKeyCombination:
    """The one press that a key of an action is."""
    return QKeySequence(sequence)[0]  # type: ignore[index, no-any-return]
