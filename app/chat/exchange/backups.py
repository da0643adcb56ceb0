"""Backups as somebody uses them: listed, made by hand, looked into, restored as a whole or in part.

What must hold: nothing here touches the database that is open. A restore is chosen here and done by
the next start (`models.store.restoring`); single chats come back as an import does, so that what
is there stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from app.chat.events import Noticed
from app.chat.exchange.exchange import Exchange
from app.chat.surroundings import ALWAYS, Still, Surroundings
from models.records import BackupList, BackupLooked

KEPT: Final = (
    "A backup is made once a day, before an upgrade and before a restore. Kept are the newest of "
    "each of the last 7 days, 4 weeks and 6 months, the last 5 made by hand, and the last 3 before "
    "upgrades and restores."
)


class Backups:
    def __init__(self, around: Surroundings, exchange: Exchange) -> None:
        self._around = around
        self._exchange = exchange

    def list(self, then: Callable[[BackupList], None], *, still: Still) -> None:
        """Newest first."""
        if self._around.store is not None:
            self._around.when_done(self._around.store.list_backups(), then, still=still)

    def make(self, then: Callable[[], None]) -> None:
        """One now; `then` is called when it lies there, checked, or could not be made."""
        if not self._around.may_write() or self._around.store is None:
            then()
            return

        def tell(_: Path) -> None:
            self._around.emit(Noticed("info", "Backup made and checked."))
            then()

        def fail(sentence: str) -> None:
            self._around.emit(Noticed("error", sentence))
            then()

        self._around.when_done(
            self._around.store.back_up(by_hand=True), tell, fail, still=ALWAYS
        )  # done

    def look_into(self, path: str, then: Callable[[BackupLooked], None], *, still: Still) -> None:
        """Check it, and tell what is in it."""
        if self._around.store is not None:
            self._around.when_done(
                self._around.store.look_into_backup(Path(path)),
                then,
                lambda sentence: then(BackupLooked(why_not=sentence)),
                still=still,
            )

    def restore(self, path: str, then: Callable[[], None]) -> None:
        """Have the next start put it in the place of what is there; `then` once that is sure."""
        if self._around.may_write() and self._around.store is not None:
            chosen = self._around.store.restore_at_start(Path(path))
            self._around.when_done(chosen, lambda _: then(), still=ALWAYS)  # the newest counts

    def keep_as_is(self, then: Callable[[], None]) -> None:
        """The next start restores nothing."""
        if self._around.may_write() and self._around.store is not None:
            left = self._around.store.restore_at_start(None)
            self._around.when_done(left, lambda _: then(), still=ALWAYS)  # the newest counts

    def bring_back(self, path: str, ids: Sequence[str], n_messages: int) -> None:
        """Add these chats of a backup to those that are there."""
        self._exchange.bring_back(Path(path), tuple(ids), n_messages)
