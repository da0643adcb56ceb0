"""The weights on this machine, as the desk tells of them: folders, what is in them, and when
to look.

Nothing is looked for before the start is over (`BEGIN_AFTER_S`), or before somebody asks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.chat.settings.settings import checked
from app.chat.surroundings import ALWAYS, Surroundings, now
from app.chat.weights.draft_partners import DraftCandidate
from app.chat.weights.loading import Loader
from app.engine.protocol.remote_messages import is_remote
from app.paths import typed_path
from app.refusal import Refusal
from models.records import Download, DownloadState, LocalFile, Weights

if TYPE_CHECKING:
    from app.gguf.local.entries import FoundWeights
    from app.gguf.local.places import Place
    from app.library.local import LocalLibrary, LocalSnapshot

BEGIN_AFTER_S: Final = 4.0
MAX_IN_MENU: Final = 30
OWN_FOLDER: Final = "weights"
"""In the data folder: where downloads go unless another folder is chosen."""

FindOthers = Callable[[], "Sequence[Place]"]
Follower = Callable[["LocalSnapshot"], None]


class LocalWeights:
    """`others` finds the places of other programs (None: they are left alone). `set_setting`
    changes a setting as the desk does."""

    def __init__(
        self,
        around: Surroundings,
        loader: Loader,
        data_dir: Path,
        set_setting: Callable[[str, Any], None],
        others: FindOthers | None = None,
    ) -> None:
        self._around = around
        self._loader = loader
        self._data_dir = data_dir
        self._set_setting = set_setting
        self._others = others
        self._library: LocalLibrary | None = None
        self._snapshot: LocalSnapshot | None = None
        self._followers: list[Follower] = []
        self._asked: set[Path] = set()
        self._is_asked = False
        self._is_begun = False
        self._is_resting = False

    # --- when to look ---------------------------------------------------------------------------

    def on_settings_read(self) -> None:
        """The store has been opened: now it is known which folders there are."""
        self._around.alarms.set("local weights", BEGIN_AFTER_S, self._begin_unasked)
        if self._is_asked:
            self.begin()

    def _begin_unasked(self) -> None:
        """Not beside a reply: what is imported and read for it takes the time of some tokens."""
        if self._is_resting:
            self._around.alarms.set("local weights", BEGIN_AFTER_S, self._begin_unasked)
        else:
            self.begin()

    def begin(self) -> None:
        """Look from now on; before the settings are read, as soon as they are."""
        self._is_asked = True
        around = self._around
        if self._is_begun or around.is_closing or around.store is None:
            return
        if not around.store.opened.done():
            return
        self._is_begun = True
        if around.store_state.state == "failed":
            self._start(())
            return
        if around.can_write:
            from app.library.remembering import FORGOTTEN_AFTER

            around.saved(around.store.forget_local_files(now() - FORGOTTEN_AFTER))
        around.when_done(
            around.store.list_local_files(),
            self._start,
            lambda _: self._start(()),
            still=ALWAYS,  # begun once
        )

    def _start(self, remembered: tuple[LocalFile, ...]) -> None:
        # Imported here: the start does not need it.
        from app.library.local import LocalLibrary

        self._library = LocalLibrary(
            lambda snapshot: self._around.hand_over(lambda: self._take(snapshot), ALWAYS),
            lambda files: self._around.hand_over(lambda: self._save(files), ALWAYS),
            others=self._others or tuple,
        )
        self._library.rest(self._is_resting)
        self._library.start(self._places(), remembered, with_others=self._with_others)

    def look_again(self) -> None:
        """Everything anew, whatever has been seen."""
        if self._library is None:
            self.begin()
        else:
            self._library.set_places(self._places(), with_others=self._with_others)
            self._library.look_again()

    def on_settings_changed(self) -> None:
        if self._library is not None:
            self._library.set_places(self._places(), with_others=self._with_others)

    def rest(self, is_resting: bool) -> None:
        """Whether something is going on for which the disk and the processor are needed."""
        if is_resting != self._is_resting:
            self._is_resting = is_resting
            if self._library is not None:
                self._library.rest(is_resting)
            self.on_settings_changed()  # weights from anywhere else may have been loaded

    def close(self) -> None:
        if self._library is not None:
            self._library.close()

    @property
    def _with_others(self) -> bool:
        return self._around.settings.find_other_apps

    def _places(self) -> list[Place]:
        """The app's own, the chosen folders, and files that were opened from anywhere else."""
        from app.gguf.local.places import Origin, Place

        included = self._loader.included
        settings = self._around.settings
        places = []
        if included is not None:
            places.append(Place(Origin.INCLUDED, included.path, name=included.name))
        places.append(Place(Origin.DOWNLOADS, self._data_dir / OWN_FOLDER))
        if settings.download_folder:
            places.append(Place(Origin.DOWNLOADS, Path(settings.download_folder)))
        folders = settings.weights_folders
        places += [Place(Origin.FOLDER, Path(path), is_chosen=True) for path in folders]
        opened = sorted(weights.path for weights in self._loader.known_weights())
        places += [Place(Origin.OPENED, Path(path)) for path in opened if Path(path).is_absolute()]
        return places

    def folder_for_copy(self, original: Path) -> Path:
        """Beside the original, if copies there are found; else where downloads go. The included
        file lies among the program's own, and a file that was opened alone in no folder of ours."""
        settings = self._around.settings
        downloads = Path(settings.download_folder or self._data_dir.absolute() / OWN_FOLDER)
        watched = [downloads, *map(Path, settings.weights_folders)]
        if any(original.is_relative_to(folder) for folder in watched):
            return original.parent
        try:
            downloads.mkdir(parents=True, exist_ok=True)
        except OSError:
            return original.parent  # whoever writes there is told what is wrong with it
        return downloads

    # --- what is known --------------------------------------------------------------------------

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Call it with what is known, now if something is, and whenever it is something else.
        Returns what ends that."""
        self._followers.append(follower)
        if self._snapshot is not None:
            follower(self._snapshot)
        self.begin()
        return lambda: self._unfollow(follower)

    def _unfollow(self, follower: Follower) -> None:
        if follower in self._followers:
            self._followers.remove(follower)

    def found(self) -> tuple[FoundWeights, ...]:
        return self._snapshot.entries if self._snapshot is not None else ()

    def name_of(self, path: str) -> str:
        """What another program calls the file, where its own name says nothing."""
        for weights in self.found():
            if os.fspath(weights.path) == path and weights.name != weights.path.stem:
                return weights.name
        return ""

    def other_paths(self, path: str) -> list[str]:
        """Where else the content of this file was found."""
        for weights in self.found():
            paths = [os.fspath(each) for each in weights.all_paths]
            if path in paths:
                return [each for each in paths if each != path]
        return []

    def for_menu(self) -> list[Weights]:
        """Those used before, the last used first, then what else can be chatted with, up to a
        number that a menu can show."""
        known = self._known_files()
        paths = {weights.path for weights in known}
        others = [
            Weights(os.fspath(each.path), each.name, each.size_bytes)
            for each in self.found()
            if each.can_load and paths.isdisjoint(os.fspath(path) for path in each.all_paths)
        ]
        return known + others[: max(0, MAX_IN_MENU - len(known))]

    def _known_files(self) -> list[Weights]:
        """What was used before and lies on this machine."""
        return [each for each in self._loader.known_weights() if not is_remote(each.path)]

    def candidates(self) -> list[DraftCandidate]:
        """Weights of this machine, each once, that may write drafts for others."""
        known = self._known_files()
        all_of_them = (
            *(DraftCandidate(each.path, each.name, each.size_bytes) for each in known),
            *(
                DraftCandidate(str(each.path), each.name, each.size_bytes)
                for each in self.found()
                if each.can_load
            ),
        )
        return list({each.path: each for each in all_of_them}.values())

    def _take(self, snapshot: LocalSnapshot) -> None:
        self._snapshot = snapshot
        if not snapshot.is_looking:
            self._ask_what_is_verified(snapshot)
            self._tell_loader(snapshot)
        for follower in tuple(self._followers):
            follower(snapshot)

    def _ask_what_is_verified(self, snapshot: LocalSnapshot) -> None:
        """What we downloaded was hashed as it came: it need not be read again."""
        from app.gguf.local.places import Origin

        store = self._around.store
        new = {
            path
            for each in snapshot.entries
            if each.origin == Origin.DOWNLOADS and not each.is_computed
            for path in each.parts
        } - self._asked
        if new and store is not None:
            self._asked |= new
            self._around.when_done(
                store.list_downloads(),
                self._know,
                lambda _sentence: None,
                still=ALWAYS,  # of files by their size and time
            )

    def _know(self, downloads: tuple[Download, ...]) -> None:
        from app.library.local import Verified

        if self._library is not None:
            self._library.know(
                Verified(Path(each.folder) / file.saved_as, file.size_bytes, mtime_ns, file.sha256)
                for each in downloads
                if each.state is DownloadState.DONE
                for file in each.files
                if (mtime_ns := file.mtime_ns) is not None and file.sha256
            )

    def _tell_loader(self, snapshot: LocalSnapshot) -> None:
        """Weights that were used are remembered with the hash of their whole content."""
        lacking = {weights.path for weights in self._loader.known_weights() if not weights.sha256}
        if not lacking:
            return
        for each in snapshot.entries:
            if each.sha256 and each.is_computed:
                for path in lacking.intersection(map(os.fspath, each.all_paths)):
                    self._loader.learn_sha256(path, each.sha256)

    def _save(self, files: tuple[LocalFile, ...]) -> None:
        around = self._around
        if files and around.can_write and around.store is not None:
            around.saved(around.store.save_local_files(files))

    # --- folders --------------------------------------------------------------------------------

    def add_folder(self, path: str, then: Callable[[str], None]) -> None:
        """Look into this folder too; it is used in place. `then` gets a sentence if that cannot be,
        else nothing."""
        folder = os.path.normpath(typed_path(path))
        folders = self._around.settings.weights_folders
        if folder in folders:
            then(f"“{folder}” has already been added.")
            return
        try:
            checked("weights_folders", (*folders, folder))
        except Refusal as refused:
            then(refused.sentence)
            return
        self._around.when_done(
            _look_whether_usable(Path(folder)),
            lambda sentence: self._add(folder, sentence, then),
            then,
            still=ALWAYS,  # added to those that there are by then
        )

    def _add(self, folder: str, sentence: str, then: Callable[[str], None]) -> None:
        folders = self._around.settings.weights_folders
        if not sentence and folder not in folders:
            self._set_setting("weights_folders", (*folders, folder))
            self.begin()
        then(sentence)

    def remove_folder(self, path: str) -> None:
        """Do not look into it any more. Nothing in it is touched."""
        folders = self._around.settings.weights_folders
        self._set_setting("weights_folders", tuple(each for each in folders if each != path))


def _look_whether_usable(folder: Path) -> Future[str]:
    """Why a folder cannot be looked into, in a sentence; empty if it can. On a thread of its own:
    disks sleep, and networks hang."""
    future: Future[str] = Future()

    def look() -> None:
        from app.gguf.local.seen import sentence_of

        try:
            with os.scandir(folder) as opened:
                next(opened, None)
        except OSError as error:
            future.set_result(sentence_of(folder, error, "choose another one"))
        except ValueError:
            future.set_result("This isn't a valid path. Choose a folder.")
        else:
            future.set_result("")

    threading.Thread(target=look, name="folder-check", daemon=True).start()
    return future
