"""Downloads, as the desk tells of them: the queue of `app.hub.downloads.queue` over the store, the
hub's gate and the settings.

What was being fetched when the program ended goes on once the settings have been read, which say
whether it may connect. A window that only reads shows the queue as the database has it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.chat.events import HubState, Noticed
from app.chat.hub.hub_questions import HubQuestions
from app.chat.settings.settings import checked
from app.chat.surroundings import ALWAYS, Surroundings
from app.chat.weights.local_weights import OWN_FOLDER
from app.paths import typed_path
from app.refusal import Refusal
from models.records import Download

if TYPE_CHECKING:
    from app.hub.downloads.progress import DownloadProgress
    from app.hub.downloads.queue import Downloads
    from app.hub.records import HubFile

LOOK_AGAIN_S: Final = 0.5
Follower = Callable[[tuple["DownloadProgress", ...]], None]
Say = Callable[[str], None]

NOT_READ_YET: Final = "The download list is still loading. Try again in a moment."


class Fetching:
    """Made by the desk. `set_setting` changes a setting as the desk does."""

    def __init__(
        self,
        around: Surroundings,
        hub: HubQuestions,
        data_dir: Path,
        set_setting: Callable[[str, Any], None],
    ) -> None:
        self._around = around
        self._hub = hub
        self._data_dir = data_dir
        self._set_setting = set_setting
        self._followers: list[Follower] = []
        self._downloads: Downloads | None = None
        self._is_begun = False
        self._trouble = ""
        self._tried = 0
        hub.follow(self._on_hub_changed)

    # --- beginning and end ----------------------------------------------------------------------

    def begin(self) -> None:
        """Read what the database has, once it is open; later, look whether what is done is still
        there."""
        around = self._around
        if self._downloads is not None:
            self._downloads.look()
        if self._is_begun or around.is_closing:
            return
        if around.store is None or not around.store.opened.done():
            around.alarms.set_once("downloads begin", LOOK_AGAIN_S, self.begin)
            return
        self._is_begun = True
        if around.store_state.state == "failed":
            self._on_unread(around.store_state.sentence)
        else:
            stored = around.store.list_downloads()
            stored.add_done_callback(_import_queue)
            around.when_done(stored, self._start, self._on_unread, still=ALWAYS)  # once

    def _start(self, stored: tuple[Download, ...]) -> None:
        from app.hub.downloads.ports import Links, Wishes
        from app.hub.downloads.queue import Downloads

        around, hub = self._around, self._hub
        self._downloads = Downloads(
            gate=hub.gate,
            links=Links(
                lambda: hub.state.endpoint,
                lambda url: hub.hub().headers_for(url),
                lambda: hub.hub().refuse_token(),
            ),
            wishes=Wishes(
                lambda: around.settings.downloads_at_once,
                lambda: around.settings.download_limit_kbs * 1000.0,
            ),
            book=_Book(around),
            post=around.post,
            clockwork=around.alarms,
            on_changed=self._tell,
            on_done=self._on_done,
            say=lambda level, sentence: around.emit(Noticed(level, sentence)),
        )
        self._downloads.restore(stored, may_run=around.can_write)

    def _on_unread(self, sentence: str) -> None:
        self._trouble = sentence
        self._tell()

    def close(self) -> None:
        """What runs is ended and goes on at the next start. Before the store is closed."""
        if self._downloads is not None and self._around.can_write:
            self._downloads.close()

    # --- what is told ---------------------------------------------------------------------------

    @property
    def all(self) -> tuple[DownloadProgress, ...]:
        return self._downloads.snapshot() if self._downloads is not None else ()

    @property
    def is_checking(self) -> bool:
        """Whether what was downloaded is being checked."""
        return any(each.phase == "checking" for each in self.all)

    @property
    def trouble(self) -> str:
        """Why nothing is downloaded in this window; empty where it is."""
        if self._trouble:
            return self._trouble
        return "" if self._around.can_write else self._around.store_state.sentence

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call it with all downloads whenever one changes, a few times a second at most. Returns
        what ends that."""
        self._followers.append(follower)
        return lambda: self._unfollow(follower)

    def _unfollow(self, follower: Follower) -> None:
        if follower in self._followers:
            self._followers.remove(follower)

    def _tell(self) -> None:
        if not self._around.is_closing:
            all_now = self.all
            for follower in list(self._followers):
                follower(all_now)

    def _on_hub_changed(self, _: HubState) -> None:
        if self._downloads is None:
            self.begin()
        else:
            self._downloads.wake()

    def _on_done(self, done: DownloadProgress) -> None:
        where = f" {done.sentence}" if done.sentence else ""
        self._around.emit(Noticed("info", f"“{done.name}” downloaded.{where}"))

    # --- what the user does ---------------------------------------------------------------------

    def add(self, file: HubFile, then: Say = lambda _id: None, failed: Say | None = None) -> None:
        """Fetch weights (all parts of a set) from the hub. `then` gets the download's id once it
        is in the queue; `failed` a sentence, which else is a notice."""
        failed = failed or self._complain
        downloads = self._writable(failed)
        if downloads is not None:
            downloads.add(file, self.folder, then, failed)

    def _complain(self, sentence: str) -> None:
        self._around.emit(Noticed("error", sentence))

    def pause(self, download_id: str) -> None:
        if downloads := self._writable():
            downloads.pause(download_id)

    def resume(self, download_id: str) -> None:
        """Go on with one that was paused, failed, waits or was cancelled, now."""
        if downloads := self._writable():
            downloads.resume(download_id)

    def cancel(self, download_id: str) -> None:
        """End it for good; what came so far is removed."""
        if downloads := self._writable():
            downloads.cancel(download_id)

    def remove(self, download_id: str) -> None:
        """Take it off the list. A whole file stays where it is, a partial one does not."""
        if downloads := self._writable():
            downloads.remove(download_id)

    def to_trash(self, download_id: str, trash: Callable[[str], bool]) -> None:
        """Its files to the trash, if they are those that were fetched. `trash(path)` is called on
        a thread and says whether it could."""
        downloads = self._writable()
        if downloads is not None:
            downloads.to_trash(download_id, trash)

    def _writable(self, failed: Say | None = None) -> Downloads | None:
        """The queue, if this window may change it; else the user hears why not."""
        words = self.trouble or ("" if self._downloads is not None else NOT_READ_YET)
        if not words:
            return self._downloads
        self.begin()
        if failed is not None:
            failed(words)
        else:
            self._around.emit(Noticed("warning", words))
        return None

    # --- the folder -----------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where new downloads go."""
        chosen = self._around.settings.download_folder
        return Path(chosen) if chosen else self._data_dir.absolute() / OWN_FOLDER

    def set_folder(self, text: str, then: Say) -> None:
        """Use this folder from now on ("": the one in the data folder), if files can be saved in
        it: that is tried on a thread. `then` gets why not, or nothing, unless another one is tried
        by then."""
        path = str(typed_path(text)) if text.strip() else ""
        try:
            checked("download_folder", path)
        except Refusal as refused:
            then(refused.sentence)
            return

        self._tried = number = self._tried + 1

        def settle(trouble: str) -> None:
            if not trouble:
                self._set_setting("download_folder", path)
                self._tell()
            then(trouble)

        def work() -> None:
            from app.hub.downloads.space import folder_trouble

            folder = Path(path) if path else self._data_dir.absolute() / OWN_FOLDER
            trouble = folder_trouble(folder, is_used_now=False)
            self._around.hand_over(lambda: settle(trouble), lambda: number == self._tried)

        threading.Thread(target=work, name="download-folder", daemon=True).start()


def _import_queue(_: object) -> None:
    """On the database's thread: the window's would stand still for it."""
    import app.hub.downloads.queue  # noqa: F401


class _Book:
    """The store, as the queue writes into it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    def create(
        self, download: Download, then: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        store = self._around.store
        assert store is not None
        created = store.create_download(download)
        self._around.when_done(created, lambda _: then(), failed, still=ALWAYS)  # done

    def change(self, download_id: str, changes: Mapping[str, Any]) -> None:
        store = self._around.store
        if store is not None and self._around.can_write:
            self._around.saved(store.update_download(download_id, **changes))

    def drop(self, download_id: str) -> None:
        store = self._around.store
        if store is not None and self._around.can_write:
            self._around.saved(store.delete_download(download_id))
