"""The part of the desk for whoever looks at the weights on this machine.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.chat.header_door import HeaderDoor
from app.chat.weights.local_weights import LocalWeights
from models.records import Weights

if TYPE_CHECKING:
    from app.library.local import LocalSnapshot


class LibraryDoor(HeaderDoor):
    """Mixed into `Desk`, which makes what is declared here."""

    _local: LocalWeights

    def follow_local_weights(self, follower: Callable[[LocalSnapshot], None]) -> Callable[[], None]:
        """Call it with what is known of the weights on this machine, now and whenever that
        changes. Returns what ends it."""
        return self._local.follow(follower)

    def look_for_weights_again(self) -> None:
        self._local.look_again()

    def weights_for_menu(self) -> list[Weights]:
        """Those used before, the last used first, then what else was found and can be loaded."""
        return self._local.for_menu()

    def add_weights_folder(self, path: str, then: Callable[[str], None]) -> None:
        """Look into this folder too; it is used in place. `then` gets why not, or nothing."""
        self._local.add_folder(path, then)

    def remove_weights_folder(self, path: str) -> None:
        """Nothing in it is touched."""
        self._local.remove_folder(path)
