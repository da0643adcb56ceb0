"""The part of the desk for whoever looks for weights on a hub.

It only delegates; `app.chat.desk` tells what holds for every method. Of each kind of question the
newest alone is answered, by one call of `then` or of `failed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.chat.events import HubState
from app.chat.hub.hub_questions import Failed, HubQuestions

if TYPE_CHECKING:
    from app.gguf.header import Header
    from app.hub.records import HubFile, HubSearchPage, RepoPage, SearchWish


class HubDoor:
    """Mixed into `Desk`, which makes what is declared here."""

    _hub: HubQuestions

    @property
    def hub_state(self) -> HubState:
        """Where the hub is, whether it may be asked, and where its token is kept."""
        return self._hub.state

    def follow_hub(self, follower: Callable[[HubState], None]) -> Callable[[], None]:
        """Call it whenever that changes. Returns what ends it."""
        return self._hub.follow(follower)

    def prepare_hub(self) -> None:
        """The hub's page is on screen: what takes time is done before it is needed."""
        self._hub.prepare()

    def search_hub(
        self, wish: SearchWish, then: Callable[[HubSearchPage], None], failed: Failed
    ) -> None:
        """The first page of a search."""
        self._hub.search(wish, then, failed)

    def more_of_hub(self, then: Callable[[HubSearchPage], None], failed: Failed) -> None:
        """The next page of the last search."""
        self._hub.more(then, failed)

    def look_into_repo(
        self, repo_id: str, revision: str, then: Callable[[RepoPage], None], failed: Failed
    ) -> None:
        """A repository and the weights in it; revision "" is the present one."""
        self._hub.look(repo_id, revision, then, failed)

    def read_model_card(
        self, repo_id: str, revision: str, then: Callable[[str], None], failed: Failed
    ) -> None:
        """Its card as Markdown; "" where there is none."""
        self._hub.card(repo_id, revision, then, failed)

    def read_remote_headers(
        self, file: HubFile, then: Callable[[tuple[Header, ...]], None], failed: Failed
    ) -> None:
        """What weights on the hub say about themselves before they are downloaded: the header of
        each part."""
        self._hub.headers(file, then, failed)

    def stop_hub(self, *kinds: str) -> None:
        """Nobody waits for these any more: search, look, card, headers, token, endpoint."""
        self._hub.stop(*kinds)

    def set_hub_token(self, text: str, then: Callable[[str], None], failed: Failed) -> None:
        """Use this token, if the hub knows it. `then` gets a sentence."""
        self._hub.set_token(text, then, failed)

    def forget_hub_token(self, then: Callable[[bool], None]) -> None:
        """Use none. `then` gets whether the system's keyring let go of it, too."""
        self._hub.forget_token(then)

    def set_hub_endpoint(self, text: str, then: Callable[[str], None], failed: Failed) -> None:
        """Use the hub at this address, if one answers there; "" is the default one."""
        self._hub.set_endpoint(text, then, failed)
