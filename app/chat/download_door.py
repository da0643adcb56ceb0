"""The part of the desk for whoever downloads weights.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from app.chat.hub.fetching import Fetching
from app.chat.hub_door import HubDoor

if TYPE_CHECKING:
    from app.hub.downloads.progress import DownloadProgress
    from app.hub.records import HubFile


class DownloadDoor(HubDoor):
    """Mixed into `Desk`, which makes what is declared here."""

    _fetching: Fetching

    @property
    def downloads(self) -> tuple[DownloadProgress, ...]:
        """All of them in the queue's order; nothing before they were read."""
        return self._fetching.all()

    @property
    def downloads_trouble(self) -> str:
        """Why this window downloads nothing (another one writes the data folder); "" if it does."""
        return self._fetching.trouble

    def follow_downloads(
        self, follower: Callable[[tuple[DownloadProgress, ...]], None]
    ) -> Callable[[], None]:
        """Call it with all downloads whenever one changes, a few times a second at most. Returns
        what ends that."""
        return self._fetching.follow(follower)

    def read_downloads(self) -> None:
        """Read the queue now, not a moment after the start."""
        self._fetching.begin()

    def download(
        self,
        file: HubFile,
        then: Callable[[str], None] = lambda _id: None,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Fetch weights (all parts of a set) from the hub. `then` gets the download's id once it
        is in the queue; `failed` a sentence, which else is a notice."""
        self._fetching.add(file, then, failed or self._fetching.complain)

    def pause_download(self, download_id: str) -> None:
        self._fetching.do("pause", download_id)

    def resume_download(self, download_id: str) -> None:
        """Go on with one that was paused, failed, waits or was cancelled, now."""
        self._fetching.do("resume", download_id)

    def cancel_download(self, download_id: str) -> None:
        """End it for good; what came so far is removed."""
        self._fetching.do("cancel", download_id)

    def remove_download(self, download_id: str) -> None:
        """Take it off the list. A whole file stays where it is, a partial one does not."""
        self._fetching.do("remove", download_id)

    def trash_download(self, download_id: str, trash: Callable[[str], bool]) -> None:
        """Its files to the trash, if they are those that were fetched. `trash(path)` is called on
        a thread and says whether it could."""
        self._fetching.to_trash(download_id, trash)

    @property
    def download_folder(self) -> Path:
        """Where new downloads go."""
        return self._fetching.folder

    def set_download_folder(self, path: str, then: Callable[[str], None]) -> None:
        """Use this folder from now on, if files can be saved in it. `then` gets why not, or
        nothing."""
        self._fetching.set_folder(path, then)
