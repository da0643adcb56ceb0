"""The part of the desk for export and import. It only delegates to `app.chat.exchange`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from app.chat.conversations.shelf import Shelf
from app.chat.door import Door
from app.chat.exchange.exchange import Exchange


class ExchangeDoor(Door):
    """Mixed into `Desk`, which makes `_exchange` and `_shelf`."""

    _exchange: Exchange
    _shelf: Shelf

    def export_chats(self, ids: Sequence[str] | None, target: str, form: str) -> None:
        """Write chats (None: all that are not in the trash) to a file.

        form: json (everything) or markdown (the path that is shown); several chats as Markdown
        become files in the folder `target`.
        """
        self._shelf.flush_draft()
        self._exchange.export(ids, target, form)

    def take_files(self, paths: Sequence[str]) -> None:
        """Dropped or pasted: exports of Cutaway are looked at, to be imported; others attached."""
        self._exchange.sort(paths, self.preview_import, self.attach_files)

    def preview_import(self, paths: Sequence[str]) -> None:
        """Look through files; ImportPreviewed says what they would bring."""
        self._exchange.preview(paths)

    def import_previewed(self) -> None:
        """Add what was looked at last, all or nothing; what is there stays as it is."""
        if self._may_write():
            self._exchange.import_previewed()

    def cancel_import(self) -> None:
        """Stop adding; nothing of it stays."""
        self._exchange.cancel()

    def forget_import(self) -> None:
        self._exchange.forget_preview()

    @abstractmethod
    def attach_files(self, paths: Sequence[str]) -> None: ...
