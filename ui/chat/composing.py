"""Keeps the composer and the desk together: attachments, the queue, history.

What the desk does not take (it says why) goes back into the field.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData, QObject, Signal
from PySide6.QtWidgets import QFileDialog

from app.chat.attachments.kinds import MEDIA
from app.chat.attachments.sight import sense_of
from app.chat.attachments.text_files import short_name
from app.chat.events import AttachmentsChanged, DocumentReached, QueueChanged
from app.chat.weights.load_settings import PROJECTOR
from app.chat.weights.projectors import Taking
from models.records import Attachment, Role
from ui.chat.composer import ATTACH_KEY
from ui.chat.documents import Documents
from ui.pictures.thumbnails import Thumbnails
from ui.shell.actions import Action, Actions
from ui.shell.notices import Notice

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.attachment_reader import AttachmentReader
    from ui.chat.chat_column import ChatColumn
    from ui.chat.unseen_row import UnseenRow
    from ui.look.theme import Theme

HISTORY_LENGTH = 100
PICTURE_SENTENCE = "This picture couldn't be read. Save it as a file and drop that."


class Composing(QObject):
    """`projector_wanted`: one is to be had for these weights; `projector_choice_wanted`: one is to
    be chosen; `model_wanted`: another model."""

    projector_wanted = Signal(str)
    projector_choice_wanted = Signal(str)
    model_wanted = Signal()

    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._theme = theme
        self._chat = chat
        self._readers: dict[str, AttachmentReader] = {}
        self.documents = Documents(desk, bridge, theme, chat)
        composer = chat.composer
        composer.complete()
        composer.set_history(self._history)
        composer.queue_requested.connect(self._on_queue_requested)
        composer.long_pasted.connect(self._on_long_pasted)
        composer.files_given.connect(self.give_files)
        composer.picture_given.connect(self.give_picture)
        self._unseen: UnseenRow | None = None
        self.thumbnails = Thumbnails(desk.media.draw, self)
        composer.set_thumbnails(self.thumbnails)
        chat.transcript.set_thumbnails(self.thumbnails)
        composer.attach_requested.connect(self.choose_files)
        composer.attachment_opened.connect(self.open_attachment)
        composer.attachment_removed.connect(desk.attachments.remove)
        composer.attachment_wanted_as_text.connect(self._put_into_text)
        composer.page_source_wanted.connect(lambda own: desk.attachments.use_sources([own]))
        composer.reading_stopped.connect(self.stop_reading)
        chat.transcript.attachment_opened.connect(self.open_attachment)
        composer.queued_edit_begun.connect(desk.queue.edit)
        composer.queued_typed.connect(desk.queue.type_into)
        composer.queued_changed.connect(desk.queue.change)
        composer.queued_removed.connect(desk.queue.remove)
        composer.send_next_requested.connect(desk.queue.send_next)
        bridge.on(AttachmentsChanged, self._on_attachments_changed)
        bridge.on(DocumentReached, self._on_document_reached)
        bridge.on(QueueChanged, self._on_queue_changed)

    def add_actions(self, actions: Actions) -> None:
        actions.add(Action("attach", "Attach files", ATTACH_KEY, self.choose_files))
        actions.add(
            Action(
                "page_source",
                "Attach the source code of web pages",
                "Ctrl+Alt+9",
                lambda: self._desk.attachments.use_sources(),
            )
        )
        actions.add(
            Action(
                "stop_attaching",
                "Stop reading attached files",
                "Esc",
                self.stop_reading,
                lambda: self._chat.composer.is_reading,
                place="In the message field",
                binds=False,
            )
        )
        self.documents.add_actions(actions)

    # --- acts -----------------------------------------------------------------------------------

    def stop_reading(self) -> None:
        self._desk.attachments.stop_reading(self._desk.shelf.open.id)

    def give_files(self, paths: list[str]) -> None:
        """Weights are loaded, exports of Cutaway offered for import, all else is attached."""
        if len(paths) == 1 and paths[0].lower().endswith(".gguf"):
            self._desk.loader.load(paths[0])
        else:
            self._desk.exchange.take_files(paths)

    def give_picture(self, source: QMimeData) -> None:
        """One that is no file was pasted or dropped: a screenshot."""
        from ui.pictures.given import picture_in

        given = picture_in(source)
        if given is None:
            self._chat.toasts.show_notice(Notice("pasted image", "info", PICTURE_SENTENCE))
        else:
            self._desk.attachments.add_picture(given.data, given.raw_size)

    def _taking(self) -> Taking:
        """Whether the model takes what goes along; if not, what would do."""
        kinds = dict.fromkeys(a.kind for a in self._desk.attachments.of_open if a.kind in MEDIA)
        found = (self._desk.projectors.taking(sense_of(kind)) for kind in kinds)
        return next((taking for taking in found if taking.why), Taking())

    def _go_the_way(self) -> None:
        """Do what would let the model see."""
        taking, path = self._taking(), self._desk.loader.path
        if taking.way in ("use", "reload"):
            if taking.way == "use":
                self._desk.defaults.change(path, PROJECTOR, "")
            self._desk.loader.load(path)
        elif taking.way == "get":
            self.projector_wanted.emit(path)
        elif taking.way == "choose":
            self.projector_choice_wanted.emit(path)
        else:
            self.model_wanted.emit()

    def choose_files(self) -> None:
        dialog = QFileDialog(self._chat, "Attach files", str(Path.home()))
        dialog.setObjectName("attach_dialog")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(self._desk.attachments.add_files)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def open_attachment(self, attachment_id: str) -> None:
        """To read, one of the draft or of a message on screen."""
        if self.documents.open(attachment_id):
            return
        from ui.chat.attachment_reader import AttachmentReader

        attachment = _find(self._desk.attachments.of_open, attachment_id)
        is_draft = attachment is not None
        if attachment is None:
            sent = (a for message in self._desk.shelf.path for a in message.attachments)
            attachment = next((a for a in sent if a.id == attachment_id), None)
        if attachment is None:
            return
        if attachment.kind in MEDIA:
            self._open_media(attachment)
            return
        reader = AttachmentReader(
            self._theme,
            attachment,
            self._chat.window(),
            put_into_text=(lambda: self._put_into_text(attachment_id)) if is_draft else None,
            remove=(lambda: self._desk.attachments.remove(attachment_id)) if is_draft else None,
            encoding=self._desk.attachments.encoding(attachment_id) if is_draft else "",
            read_as=lambda encoding: self._desk.attachments.read_as(attachment_id, encoding),
        )
        self._readers[attachment_id] = reader
        reader.destroyed.connect(lambda: self._forget(attachment_id, reader))
        reader.show()

    def _open_media(self, attachment: Attachment) -> None:
        from ui.pictures.viewer import MediaViewer

        own = self._desk.attachments.of_open
        lists = (own, *(message.attachments for message in self._desk.shelf.path))
        beside = next((each for each in lists if _find(each, attachment.id)), own)
        shown = [each for each in beside if each.kind in MEDIA]
        viewer = MediaViewer(
            self._theme,
            self._desk.media,
            shown,
            shown.index(attachment),
            self._chat.window(),
        )
        viewer.show()

    def _forget(self, attachment_id: str, reader: AttachmentReader) -> None:
        if self._readers.get(attachment_id) is reader:
            del self._readers[attachment_id]

    def _put_into_text(self, attachment_id: str) -> None:
        text = self._desk.attachments.take_as_text(attachment_id)
        if text:
            self._chat.composer.insert_text(text)
            self._chat.composer.focus()

    def _on_long_pasted(self, text: str) -> None:
        if not self._desk.attachments.add_paste(text):
            self._chat.composer.insert_text(text)

    def _on_queue_requested(self, text: str) -> None:
        if not self._desk.queue.add(text):
            self._chat.composer.set_text(text)

    def _history(self) -> list[str]:
        texts = [m.content for m in self._desk.shelf.path if m.role is Role.USER]
        return texts[-HISTORY_LENGTH:]

    # --- following ------------------------------------------------------------------------------

    def _on_attachments_changed(self, event: AttachmentsChanged) -> None:
        self._chat.composer.set_attachments(event.attachments, event.is_coming, event.is_refused)
        self._show_unseen(event.unseen)
        for attachment in event.attachments:
            if attachment.id in self._readers:
                self._readers[attachment.id].show_attachment(attachment)

    def _on_document_reached(self, event: DocumentReached) -> None:
        pages = f": page {event.done:,} of {event.total:,}" if event.total else ""
        self._chat.composer.set_reading(f"Reading {short_name(event.name)}{pages}")

    def _show_unseen(self, sentence: str) -> None:
        taking = self._taking()
        sentence = taking.why or sentence
        if sentence and self._unseen is None:
            from ui.chat.unseen_row import UnseenRow

            self._unseen = UnseenRow(self._theme)
            self._unseen.asked.connect(self._go_the_way)
            self._chat.composer.add_above(self._unseen)
        if self._unseen is not None:
            self._unseen.show_words(sentence, taking.button)
            self._chat.composer.put_in_order()

    def _on_queue_changed(self, event: QueueChanged) -> None:
        self._chat.composer.set_queue(event.messages, event.is_held)


def _find(attachments: tuple[Attachment, ...], attachment_id: str) -> Attachment | None:
    return next((a for a in attachments if a.id == attachment_id), None)
