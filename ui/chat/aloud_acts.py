"""Reading aloud from the window: actions, the bar above the composer, and what it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.chat.events import MessageAdded, MessageChanged, PathChanged, ReadingChanged, TextArrived
from models.records import Role
from ui.shell.actions import Action, Actions
from ui.transcript.offers import READ_ALOUD

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.aloud_bar import AloudBar
    from ui.chat.chat_column import ChatColumn
    from ui.look.theme import Theme

GROUP = "Message"


class AloudActs(QObject):
    """`look_again`: Escape means something else now."""

    def __init__(
        self,
        desk: Desk,
        bridge: Bridge,
        theme: Theme,
        chat: ChatColumn,
        look_again: Callable[[], None],
    ) -> None:
        super().__init__(chat)
        self._desk = desk
        self._theme = theme
        self._chat = chat
        self._look_again = look_again
        self._bar: AloudBar | None = None
        chat.transcript.act_requested.connect(self._on_act_requested)
        bridge.on(ReadingChanged, self._on_reading_changed)
        bridge.on(TextArrived, self._on_text_arrived)
        bridge.on(MessageChanged, self._on_message_changed)
        bridge.on(MessageAdded, self._on_message_added)
        bridge.on(PathChanged, self._on_path_changed)

    def add_actions(self, actions: Actions) -> None:
        aloud = self._desk.aloud
        why_not = "" if aloud.is_possible else aloud.why_not()

        def can_read() -> bool:
            return not why_not and self._message_id() != ""

        def is_reading() -> bool:
            return aloud.is_reading

        for name, title, key, run, is_enabled in (
            ("read_aloud", "Read the reply aloud", "F8", self.read, can_read),
            (
                "pause_reading",
                "Pause or go on reading aloud",
                "Shift+F8",
                aloud.toggle_pause,
                is_reading,
            ),
            ("next_sentence", "Read the next sentence", "Ctrl+F8", aloud.skip, is_reading),
            ("stop_reading", "Stop reading aloud", "Ctrl+Shift+F8", aloud.stop, is_reading),
        ):
            # Where it cannot be done, the palette says what to install.
            actions.add(Action(name, title, key, run, is_enabled, GROUP, place=why_not))
        actions.add(
            Action(
                "read_replies",
                "Read replies aloud as they are written",
                "Alt+F8",
                self._toggle_always,
                lambda: not why_not,
                GROUP,
                is_checked=lambda: self._desk.settings.now.read_aloud,
            )
        )

    def _toggle_always(self) -> None:
        self._desk.settings.set("read_aloud", not self._desk.settings.now.read_aloud)

    def _message_id(self) -> str:
        """The reply that the keyboard is on, else the last one."""
        transcript = self._chat.transcript
        current = transcript.keyboard.current if transcript.hasFocus() else None
        if current is not None and current < len(transcript.rows):
            return transcript.rows.message(current).id
        replies = (m.id for m in reversed(self._desk.shelf.path) if m.role is Role.ASSISTANT)
        return next(replies, "")

    def read(self) -> None:
        self._desk.aloud.read(self._message_id())

    def _on_act_requested(self, name: str, message_id: str) -> None:
        if name == READ_ALOUD.name:
            self._desk.aloud.read(message_id)

    def _on_text_arrived(self, event: TextArrived) -> None:
        self._desk.aloud.follow(event.message_id)

    def _on_message_changed(self, event: MessageChanged) -> None:
        self._desk.aloud.follow(event.message.id)

    def _on_message_added(self, event: MessageAdded) -> None:
        self._desk.aloud.began(event.message)

    def _on_path_changed(self, _event: PathChanged) -> None:
        self._desk.aloud.on_opened()

    def _on_reading_changed(self, event: ReadingChanged) -> None:
        self._look_again()
        if not event.message_id:
            if self._bar is not None:
                self._bar.hide()
            return
        bar = self.bar()
        bar.show_sentence(event.sentence, is_paused=event.is_paused)
        bar.show()

    def bar(self) -> AloudBar:
        if self._bar is None:
            from ui.chat.aloud_bar import AloudBar

            aloud = self._desk.aloud
            self._bar = AloudBar(self._theme)
            self._bar.hide()
            self._bar.pause_wanted.connect(aloud.toggle_pause)
            self._bar.next_wanted.connect(aloud.skip)
            self._bar.stop_wanted.connect(aloud.stop)
            self._chat.add_bar(self._bar)
        return self._bar
