"""Export and import as use cases: one at a time, on a thread beside the owner's.

An import has two steps. `preview` looks through the files and says what they would bring
(`ImportPreviewed`); `import_previewed` adds it: in pieces, so that messages are saved in between,
and all or nothing (`models.conversations.importing`). What an import that was killed has left goes
at the next start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from app.chat.attachments.attachments import Attachments
from app.chat.conversations.shelf import Shelf
from app.chat.events import (
    ChatLooked,
    Event,
    ExportProgressed,
    ImportLooked,
    ImportPreviewed,
    ImportProgressed,
    LeftOut as LeftOutTold,
    Noticed,
)
from app.chat.exchange.choices import Choices, Form
from app.chat.surroundings import ALWAYS, Surroundings, now
from models.records import Imported, Message, WholeConversation
from models.store.errors import ClosedError, StoreError

if TYPE_CHECKING:
    from app.chat.exchange.exporting import Press
    from app.chat.exchange.importing import ImportPreview
    from app.chat.exchange.reading import Chat

T = TypeVar("T")
P = ParamSpec("P")

CLOSE_TIMEOUT_S: Final = 10.0
TOLD_EVERY_S: Final = 0.2
CANCELLED: Final = "Export cancelled. Files that were finished are kept."
BUSY: Final = "An export or import is still running. Try again when it is finished."


class _CancelledError(StoreError):
    """Raised between two pieces of an import or export that nobody wants any more."""


class Exchange:
    """`imported` is told which chats were added; it lists them and offers the way back. `press`
    makes PDF files, where there is a window."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        attachments: Attachments,
        imported: Callable[[Imported, str], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._attachments = attachments
        self._imported = imported
        self.press: Press | None = None
        self._previews: dict[int, ImportPreview] = {}
        """By number: files may be dropped while others are asked about."""
        self._shown = 0
        self._is_busy = False
        self._closing = threading.Event()
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None

    def export(self, ids: Sequence[str] | None, target: str, wanted: Choices | Form) -> None:
        """Write chats (None: all that are not in the trash) to a file, or each to a file of its own
        in a folder or a ZIP archive. ExportProgressed says how far it is."""
        self._shelf.flush_draft()
        store = self._around.store
        if store is None:
            return
        from app.chat.exchange.exporting import Export  # not needed before the first paint

        choices = Choices(wanted) if isinstance(wanted, str) else wanted
        kept = None if ids is None else tuple(ids)
        is_one = kept is not None and len(kept) == 1
        unit = "messages" if is_one and choices.form != "json" else "chats"
        progress = self._now_and_then(lambda done, total: ExportProgressed(done, total, unit))
        export = Export(
            store, kept, Path(target), now(), self._check_wanted, choices, progress, self.press
        )
        place = Path(target).name or target

        def work() -> int | None:
            try:
                return export.run()
            except _CancelledError:
                return None
            finally:
                ended = ExportProgressed(0, 0, unit, is_over=True)
                self._around.hand_over(lambda: self._around.emit(ended), ALWAYS)  # done

        def tell(count: int | None) -> None:
            if count is None:
                self._around.emit(Noticed("info", CANCELLED))
            else:
                self._around.emit(Noticed("info", f"{_chats(count)} exported to “{place}”."))

        self._begin(work, tell)

    def with_message(
        self,
        message_id: str,
        make: Callable[[Chat, Message], T],
        then: Callable[[T], None],
        failed: Callable[[str], None],
    ) -> None:
        """Something made of one message as it is stored, on the export's thread."""
        store = self._around.store
        if store is None:
            return
        from app.chat.exchange.reading import Chat
        from app.markdown.formula_drawings import FormulaDrawings

        conversation = self._shelf.open

        def work() -> T:
            message = store.load_message(message_id).result()
            drawings = FormulaDrawings(check=self._check)
            chat = Chat(store, WholeConversation(conversation, (message,)), drawings, self._check)
            try:
                return make(chat, message)
            finally:
                drawings.close()

        self._begin(work, then, failed)

    def write_text(
        self,
        target: str,
        make: Callable[[], str | None],
        then: Callable[[bool], None],
        failed: Callable[[str], None],
    ) -> None:
        """A text that is made where it is written, on the same thread, into a file. None: nobody
        wants it any more. `then` is told whether the file was written."""
        from app.chat.exchange.exporting import write_text

        def work() -> bool:
            text = make()
            self._check()
            if text is not None:
                write_text(Path(target), text)
            return text is not None

        self._begin(work, then, failed)

    def take_files(self, paths: Sequence[str]) -> None:
        """Dropped or pasted: exports of Cutaway and of other apps are looked at, to be imported;
        others attached. Files are looked into beside the owner's thread."""
        from app.chat.exchange.recognising import is_import, may_be_import

        if not any(map(may_be_import, paths)):
            self._attachments.add_files(paths)
            return
        given_to = self._shelf.open.id
        self._attachments.expect(given_to)

        def look() -> None:
            ours = [path for path in paths if is_import(path)]
            rest = [path for path in paths if path not in ours]
            self._around.hand_over(partial(take, ours, rest), ALWAYS)  # for `given_to`

        def take(ours: list[str], rest: list[str]) -> None:
            if ours:
                self.preview(ours)
            is_refused = bool(rest) and not self._attachments.add_files(rest, given_to)
            self._attachments.has_come(given_to, is_refused=is_refused)

        threading.Thread(target=look, name="dropped-files", daemon=True).start()

    def preview(self, paths: Sequence[str]) -> None:
        """Look through files; ImportPreviewed says what they would bring."""
        store = self._around.store
        if store is None:
            return
        from app.chat.exchange.importing import look_through

        kept = tuple(paths)
        tell = self._now_and_then(lambda n_chats: ImportLooked(n_chats))

        def look() -> tuple[ImportPreview, ImportPreviewed] | None:
            try:
                preview = look_through(store, kept, now(), self._check_wanted, tell)
                return preview, _previewed(preview)
            except _CancelledError:
                return None
            finally:
                over = ImportLooked(0, is_over=True)
                self._around.hand_over(lambda: self._around.emit(over), ALWAYS)  # it ends

        self._begin(look, self._show)

    def import_previewed(self, chosen: frozenset[str] | None = None, number: int = 0) -> None:
        """Add what was looked at, all or nothing; what is there stays as it is. `chosen`: ids of
        its chats and presets; None: all. `number`: the preview's; 0: the last one's."""
        if not self._around.may_write():
            return
        preview = self._previews.pop(number or self._shown, None)
        store = self._around.store
        if preview is None or store is None or not preview.sources:
            return

        folders, presets = tuple(preview.folders), tuple(preview.presets)
        total = sum(
            chat.n_messages for chat in preview.chats if chosen is None or chat.id in chosen
        )
        wanted = frozenset(
            each.id
            for each in preview.chats
            if each.is_preset and (chosen is None or each.id in chosen)
        )

        def work() -> Imported | None:
            chats = preview.chats_again(self._check_wanted, chosen)
            try:
                told, check = self._progress(total), self._check_cancelled
                return store.add_all(chats, folders, presets, told, wanted, check)
            except _CancelledError:
                return None
            finally:
                ended = ImportProgressed(total, total, True)
                self._around.hand_over(lambda: self._around.emit(ended), ALWAYS)  # done

        self._begin(work, self._tell)

    def bring_back(self, backup: Path, ids: Sequence[str], n_messages: int) -> None:
        """Add chats of a backup, all or nothing; what is there stays as it is."""
        store = self._around.store
        if not self._around.may_write() or store is None or not ids:
            return

        def work() -> Imported | None:
            from models.store.backup_reading import opened

            try:
                with opened(backup) as inside:
                    folders, presets = inside.belongings()
                    chats = map(inside.whole, ids)
                    told, check = self._progress(n_messages), self._check_cancelled
                    return store.add_all(chats, folders, presets, told, check=check)
            except _CancelledError:
                return None
            finally:
                ended = ImportProgressed(n_messages, n_messages, True)
                self._around.hand_over(lambda: self._around.emit(ended), ALWAYS)  # done

        self._begin(work, self._tell)

    def cancel(self) -> None:
        """Give up the import or export that runs; nothing of it stays."""
        self._cancelled.set()

    def drop_unfinished(self) -> None:
        """Of imports that came to no end in an earlier run: bit by bit, as messages come in."""
        store = self._around.store
        if store is None:
            return

        def drop(ids: tuple[str, ...]) -> None:
            def go_on(count: int) -> None:
                if count:
                    drop(ids)

            if ids:
                self._around.when_done(store.drop_some(ids), go_on, still=ALWAYS)  # done

        self._around.when_done(store.staged_ids(), drop, still=ALWAYS)  # of an earlier run

    def forget_preview(self, number: int = 0) -> None:
        self._previews.pop(number or self._shown, None)

    def close(self) -> None:
        """Give up what runs. Before the store is closed."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)
        if self.press is not None:
            self.press.close()

    # --- how it is done -------------------------------------------------------------------------

    def _show(self, looked: tuple[ImportPreview, ImportPreviewed] | None) -> None:
        if looked is not None:
            self._shown += 1
            self._previews[self._shown] = looked[0]
            self._around.emit(replace(looked[1], number=self._shown))

    def _progress(self, total: int) -> Callable[[int], None]:
        """Tells how far an import is, now and then. Called on another thread."""
        return self._now_and_then(lambda done: ImportProgressed(done, total))

    def _now_and_then(self, event: Callable[P, Event]) -> Callable[P, None]:
        told_at = self._around.clock()

        def tell(*args: P.args, **kwargs: P.kwargs) -> None:
            nonlocal told_at
            self._check_wanted()
            if self._around.clock() - told_at >= TOLD_EVERY_S:
                told_at = self._around.clock()
                far = event(*args, **kwargs)
                self._around.hand_over(lambda: self._around.emit(far), ALWAYS)  # another ends it

        return tell

    def _check_wanted(self) -> None:
        """Called on other threads, between two pieces."""
        self._check_cancelled()
        self._check()

    def _check_cancelled(self) -> None:
        """Called on the database's thread, too, which knows by itself when it closes."""
        if self._cancelled.is_set():
            raise _CancelledError("Cancelled.")

    def _tell(self, imported: Imported | None) -> None:
        if imported is None:
            self._around.emit(Noticed("info", "Import cancelled. Nothing was added."))
            return
        sentence = _imported(len(imported.ids), len(imported.presets))
        if imported.grown:
            more = (
                "1 chat has" if len(imported.grown) == 1 else f"{len(imported.grown):,} chats have"
            )
            is_new = imported.ids or imported.presets
            sentence = f"{sentence}, {more}" if is_new else more
            sentence += " new messages"
        if imported.renamed:
            sentence += f", {imported.renamed:,} of them next to another version"
        if imported.there:
            verb = "was" if imported.there == 1 else "were"
            sentence += f"; {imported.there:,} {verb} there already"
        self._imported(imported, f"{sentence}.")

    def _begin(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """`failed`: who says that it did, if somebody else shall."""
        if self._is_busy:
            if failed is not None:
                failed(BUSY)
            else:
                self._around.emit(Noticed("warning", BUSY))
            return
        self._is_busy = True
        self._cancelled.clear()
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - whoever waits is told
                future.set_exception(error)
            else:
                future.set_result(result)

        def settle(result: T) -> None:
            self._is_busy = False
            done(result)

        def fail(sentence: str) -> None:
            self._is_busy = False
            if failed is not None:
                failed(sentence)
            else:
                self._around.emit(Noticed("error", sentence))

        self._thread = threading.Thread(target=run, name="exchange", daemon=True)
        self._thread.start()
        self._around.when_done(future, settle, fail, still=ALWAYS)  # the next one may begin

    def _check(self) -> None:
        """Called on other threads, between two chats."""
        if self._closing.is_set():
            raise ClosedError("Cutaway closed before this was finished.")


def _previewed(preview: ImportPreview) -> ImportPreviewed:
    chats = tuple(
        ChatLooked(
            c.title,
            c.n_messages,
            c.updated_at,
            c.file,
            c.whereabouts,
            c.id,
            c.app,
            c.created_at,
            c.is_preset,
        )
        for c in preview.chats
    )
    left_out = tuple(
        LeftOutTold(each.app, each.what, each.count, tuple(each.where))
        for each in preview.left_out.values()
    )
    return ImportPreviewed(chats, tuple(preview.refusals), left_out)


def _imported(n_chats: int, n_presets: int) -> str:
    if not n_presets:
        return f"{_chats(n_chats)} imported" if n_chats else "Nothing is new"
    presets = "1 preset" if n_presets == 1 else f"{n_presets:,} presets"
    if not n_chats:
        return f"{presets} {'was' if n_presets == 1 else 'were'} imported"
    return f"{'1 chat' if n_chats == 1 else f'{n_chats:,} chats'} and {presets} were imported"


def _chats(count: int) -> str:
    return "1 chat was" if count == 1 else f"{count:,} chats were"
