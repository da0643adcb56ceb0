"""A message as a picture by the user's hand: copied, or saved where the file dialog says."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QObject
from PySide6.QtGui import QGuiApplication

from models.records import Role
from ui.look.theme import Theme
from ui.shell.actions import Action, Actions
from ui.shell.dialogs import open_file, show_folder
from ui.shell.notices import Act, Notice, ToastArea
from ui.windows.exchange_acts import ExchangeActs

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from app.chat.exchange.reading import Chat
    from models.records import Message
    from ui.chat.message_acts import MessageActs
    from ui.paper.picture import PicturePress

COPY_KEY: Final = "Ctrl+Alt+Shift+D"
SAVE_KEY: Final = "Ctrl+Alt+Shift+V"
COPIED: Final = "Copied as a picture."
CUT_WORDS: Final = "It is too long for a picture, so only its beginning is in it."
FILTERS: Final = ("Sharp picture, 2× (*.png)", "Small picture, 1× (*.png)")


class PictureActs(QObject):
    """`acts` says which message is meant, and asks here for its picture."""

    def __init__(
        self,
        desk: Desk,
        theme: Theme,
        files: ExchangeActs,
        toasts: ToastArea,
        acts: MessageActs,
    ) -> None:
        super().__init__(acts)
        self._desk = desk
        self._theme = theme
        self._files = files
        self._toasts = toasts
        self._acts = acts
        self._press: PicturePress | None = None
        acts.picture_requested.connect(self.do)

    def add_actions(self, actions: Actions) -> None:
        for name, title, key, act in (
            ("copy_picture", "Copy the message as a picture", COPY_KEY, "copy_picture"),
            ("save_picture", "Save the message as a picture…", SAVE_KEY, "save_picture"),
        ):
            run = partial(self._acts.do_here, act)
            actions.add(Action(name, title, key, run, self._has_messages, "Message"))

    def _has_messages(self) -> bool:
        return bool(self._desk.shelf.path)

    def do(self, name: str, message_id: str) -> None:
        if name == "copy_picture":
            self._draw(message_id, 2, lambda image: image, self._copied)
            return
        message = self._desk.shelf.message(message_id)
        who = "Reply" if message is not None and message.role is Role.ASSISTANT else "Message"
        title = f"{who} in {self._desk.shelf.open.title}"
        self._files.ask_where_picture(title, FILTERS, partial(self._save, message_id))

    def _copied(self, image: Any, is_cut: bool) -> None:
        QGuiApplication.clipboard().setImage(image)
        self._told(COPIED, is_cut)

    def _save(self, message_id: str, path: str, chosen: str) -> None:
        scale = 1 if chosen == FILTERS[1] else 2

        def write(image: Any) -> None:
            from app.chat.exchange.exporting import write_bytes

            write_bytes(Path(path), _png(image))

        def saved(_done: None, is_cut: bool) -> None:
            place = Path(path)
            self._told(
                f"Saved as “{place.name}”.",
                is_cut,
                Act("Open", lambda: open_file(self._toasts, place)),
                Act("Show in folder", lambda: show_folder(self._toasts, place.parent)),
            )

        self._draw(message_id, scale, write, saved)

    def _draw(
        self,
        message_id: str,
        scale: int,
        then: Callable[[Any], Any],
        done: Callable[[Any, bool], None],
    ) -> None:
        """`then` is done with the image on the export's thread, `done` here with what it gave."""
        if self._press is None:
            from ui.paper.picture import PicturePress

            self._press = PicturePress(self._theme, self)
        press = self._press

        def work(chat: Chat, message: Message) -> tuple[Any, bool]:
            image, is_cut = press.picture(chat, message, scale)
            return then(image), is_cut

        self._desk.exchange.with_message(
            message_id,
            work,
            lambda found: done(*found),
            lambda sentence: self._toasts.show_notice(Notice("picture", "error", sentence)),
        )

    def _told(self, sentence: str, is_cut: bool, *acts: Act) -> None:
        words = f"{sentence} {CUT_WORDS}" if is_cut else sentence
        self._toasts.show_notice(Notice("picture", "info", words, acts=acts))


def _png(image: Any) -> bytes:
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    if not image.save(buffer, "PNG"):
        raise OSError(os.strerror(12))  # the only thing that can be missing is memory
    return bytes(data.data())
