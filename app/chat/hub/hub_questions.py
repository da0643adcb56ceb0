"""What the window asks a hub, each question on a thread beside it, and whether it may ask at all.

Questions are of a few kinds (a search, a repository, its card, …), and of each kind the newest
alone is answered: asking again calls the one before off. Every question ends in one call of `then`
or of `failed`, on the owner's thread, unless it was called off. What must hold:

* The gate is closed until the stored settings have been read and say that it may be open; where
  they cannot be read it stays closed.
* The token is read from the keyring only where one was kept there, and beside the window.
* `HubTrouble.sentence` says what to do next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from app.chat.events import HubState, HubTrouble, Noticed
from app.chat.hub.hub_pool import HubPool
from app.chat.surroundings import Surroundings
from app.hub import address
from app.hub.gate import NOT_KNOWN_YET, OFFLINE, OFFLINE_BY_ARGUMENT, Call, CalledOff, Gate
from app.hub.token import THIS_RUN_ONLY, AccessTokens, checked_token
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.gguf.header import Header
    from app.hub.client import Hub, Search
    from app.hub.records import HubFile, HubSearchPage, RepoPage, SearchWish

T = TypeVar("T")
Failed = Callable[[HubTrouble], None]
SetSetting = Callable[[str, object], None]

SETTINGS_UNREAD: Final = (
    "The settings couldn't be read, so Cutaway stays offline. Fix the database problem, then "
    "restart Cutaway."
)
OUR_FAULT: Final = "Something went wrong in Cutaway. Try again; the log has the details."
TOKEN_REFUSED: Final = (
    "“{host}” rejected your token (mistyped, expired or revoked), so Cutaway continues without "
    "it. Enter a new one on the Hub page."
)

_log = logging.getLogger(__name__)


class HubQuestions:
    """Made by the desk. `hub` is for its other parts that talk to the same hub."""

    def __init__(self, around: Surroundings, set_setting: SetSetting, *, offline: bool) -> None:
        self._around = around
        self._set_setting = set_setting
        self._is_forced = offline
        self._are_settings_known = False
        self.gate = Gate()
        if offline:
            self.gate.close_it(OFFLINE_BY_ARGUMENT)
        self._pool = HubPool()
        self._making = threading.Lock()
        self._calls: dict[str, Call] = {}
        self._endpoint = address.default_endpoint()
        self._tokens = AccessTokens(address.origin_of(self._endpoint))
        self._hub: Hub | None = None
        self._search: Search | None = None
        self._account = ""
        self._told = self.state
        self._followers: list[Callable[[HubState], None]] = []

    # --- the state ------------------------------------------------------------------------------

    @property
    def state(self) -> HubState:
        return HubState(
            endpoint=self._endpoint,
            host=address.host_of(self._endpoint),
            why_offline=self.gate.why_closed,
            token_where=self._tokens.where,
            is_token_refused=self._tokens.is_refused,
            account=self._account,
        )

    def follow(self, follower: Callable[[HubState], None]) -> Callable[[], None]:
        """Call it whenever the state changes. Returns what ends it."""
        self._followers.append(follower)
        return lambda: self._followers.remove(follower)

    def take_stored_settings(self) -> None:
        """They have been read: from now on they say whether the gate is open."""
        self._are_settings_known = True
        self.take_settings(frozenset({"offline", "hub_endpoint"}))

    def settings_failed(self) -> None:
        """They cannot be read: somebody may have wanted no connection."""
        if not self._is_forced:
            self.gate.close_it(SETTINGS_UNREAD)
            self._tell()

    def take_settings(self, names: frozenset[str]) -> None:
        """These have changed."""
        settings = self._around.settings
        if "offline" in names and not self._is_forced:
            if settings.offline:
                self.gate.close_it(OFFLINE)
            elif self._are_settings_known:
                self.gate.open_it()
        if "hub_endpoint" in names:
            self._turn_to(settings.hub_endpoint or address.default_endpoint())
        self._tell()

    def _turn_to(self, endpoint: str) -> None:
        if endpoint == self._endpoint:
            return
        self.stop_all()
        self._endpoint = endpoint
        self._hub = self._search = None
        self._account = ""
        self.gate.token_origin = ""
        self._tokens.turn_to(address.origin_of(endpoint))

    def _tell(self) -> None:
        state = self.state
        if state != self._told and not self._around.is_closing:
            self._told = state
            for follower in list(self._followers):
                follower(state)

    # --- questions ------------------------------------------------------------------------------

    def search(
        self, wish: SearchWish, then: Callable[[HubSearchPage], None], failed: Failed
    ) -> None:
        """The first page of a search. `more` asks for the next ones."""

        def ask() -> tuple[Search, HubSearchPage]:
            search = self.hub().search(wish)
            return search, search.next_page()

        def found(answer: tuple[Search, HubSearchPage]) -> None:
            self._search, page = answer
            then(page)

        self._search = None
        self._ask("search", ask, found, failed)

    def more(self, then: Callable[[HubSearchPage], None], failed: Failed) -> None:
        """The next page of the last search; asked twice, it is answered once."""
        search = self._search
        if search is not None and "search" not in self._calls:
            self._ask("search", search.next_page, then, failed)

    def look(
        self, repo_id: str, revision: str, then: Callable[[RepoPage], None], failed: Failed
    ) -> None:
        """A repository and its weights; revision "" is the present one."""
        self._ask("look", lambda: self.hub().look(repo_id, revision), then, failed)

    def card(
        self, repo_id: str, revision: str, then: Callable[[str], None], failed: Failed
    ) -> None:
        """A model card as Markdown; "" where there is none."""
        self._ask("card", lambda: self.hub().card(repo_id, revision or "main"), then, failed)

    def headers(
        self, file: HubFile, then: Callable[[tuple[Header, ...]], None], failed: Failed
    ) -> None:
        """The headers of all parts of weights that are still on the hub."""

        def ask() -> tuple[Header, ...]:
            from app.hub.remote_header import headers_of

            return headers_of(self.hub(), file)

        self._ask("headers", ask, then, failed)

    def stop(self, *kinds: str) -> None:
        """Nobody waits for these any more."""
        for kind in kinds:
            call = self._calls.pop(kind, None)
            if call is not None:
                call.cancel()

    def stop_all(self) -> None:
        self.stop(*self._calls)

    # --- token and address ----------------------------------------------------------------------

    def set_token(self, text: str, then: Callable[[str], None], failed: Failed) -> None:
        """Ask the hub whose it is, then keep it. `then` gets a sentence."""
        try:
            token = checked_token(text)
        except Refusal as refused:
            failed(HubTrouble("token_bad", refused.sentence))
            return

        endpoint, origin = self._endpoint, self._tokens.origin

        def ask() -> tuple[str, str]:
            hub = self.hub()
            if hub.endpoint != endpoint:
                raise CalledOff  # another one was chosen as this thread began
            account = hub.who(token)
            self._tokens.keep(token, origin)
            return account, self._tokens.where

        def kept(answer: tuple[str, str]) -> None:
            self._account, where = answer
            self._remember(is_kept=where == "keyring")
            self._tell()
            words = f"Now using the token of “{self._account}”."
            then(words if where == "keyring" else f"{words} {THIS_RUN_ONLY}")

        self._ask("token", ask, kept, failed)

    def forget_token(self, then: Callable[[bool], None]) -> None:
        """It is not used any more. `then` gets whether the keyring let go of it, too."""

        def forget() -> bool:
            if has_kept:
                self._tokens.read()
            return self._tokens.forget()

        def gone(is_gone: bool) -> None:
            self._account = ""
            self._remember(is_kept=False)
            self._tell()
            then(is_gone)

        has_kept = self._has_kept_token()
        self._ask("token", forget, gone, lambda _: gone(False), needs_gate=False)

    def set_endpoint(self, text: str, then: Callable[[str], None], failed: Failed) -> None:
        """Use the hub at another address, if there is one; "" is the default. `then` gets a
        sentence."""
        try:
            endpoint = address.checked_endpoint(text) if text.strip() else ""
        except Refusal as refused:
            failed(HubTrouble("not_hub", refused.sentence))
            return
        target = endpoint or address.default_endpoint()

        def ask() -> None:
            from app.hub.client import Hub

            # No token goes along: this may be anybody's address.
            Hub(self.gate, target, lambda: None, takes_token=False).check()

        def use(_: object) -> None:
            self._set_setting("hub_endpoint", endpoint)
            then(f"Now using the hub at “{address.host_of(target)}”.")

        if target == self._endpoint:
            use(None)
        else:
            self._ask("endpoint", ask, use, failed)

    def _remember(self, *, is_kept: bool) -> None:
        """For which hubs the keyring has a token. It may ask the user: it is not opened in vain."""
        origin = address.origin_of(self._endpoint)
        known = [each for each in self._around.settings.hub_tokens_kept if each != origin]
        self._set_setting("hub_tokens_kept", (*known, *([origin] if is_kept else [])))

    # --- how it asks ----------------------------------------------------------------------------

    def hub(self) -> Hub:
        """The hub at the present address; on one of the pool's threads, or another that may wait
        (it imports httpx2, and may ask the keyring)."""
        with self._making:
            return self._made_hub()

    def _made_hub(self) -> Hub:
        from app.hub.client import Hub

        found = self._hub
        if found is None or found.endpoint != self._endpoint:
            if self._has_kept_token():
                self._tokens.read()
            tokens = self._tokens
            found = Hub(self.gate, self._endpoint, lambda: tokens.token, self._on_token_refused)
            self._hub = found
        return found

    def prepare(self) -> None:
        """The hub's page is on screen, and somebody is about to ask: what the keyring knows is
        read, and the state told."""
        if self._has_kept_token() and self._tokens.token is None:
            self._ask("prepare", self._tokens.read, _ignore, _ignore, needs_gate=False)

    def _has_kept_token(self) -> bool:
        return address.origin_of(self._endpoint) in self._around.settings.hub_tokens_kept

    def _on_token_refused(self, token: str) -> None:
        """Called on a thread that asks."""
        if token != self._tokens.token:
            return
        self._tokens.refuse(token)
        self._around.hand_over(self._say_refused, lambda: self._tokens.is_refused)

    def _say_refused(self) -> None:
        self._account = ""
        self._tell()
        host = address.host_of(self._endpoint)
        self._around.emit(Noticed("warning", TOKEN_REFUSED.format(host=host)))

    def _ask(
        self,
        kind: str,
        ask: Callable[[], T],
        then: Callable[[T], None],
        failed: Failed,
        *,
        needs_gate: bool = True,
    ) -> None:
        self.stop(kind)
        if needs_gate and not self.gate.is_open:
            failed(HubTrouble("offline", self.gate.why_closed or NOT_KNOWN_YET))
            return
        call = self._calls[kind] = Call()

        def settle(answer: Callable[[], None]) -> None:
            del self._calls[kind]
            self._tell()
            answer()

        def is_wanted() -> bool:
            return self._calls.get(kind) is call

        def run() -> None:
            try:
                result = ask()
            except CalledOff:
                return
            except Exception as error:  # noqa: BLE001 - what it means is told by its kind
                trouble = _trouble_of(error)
                self._around.hand_over(lambda: settle(lambda: failed(trouble)), is_wanted)
                return
            self._around.hand_over(lambda: settle(lambda: then(result)), is_wanted)

        self._pool.put(call, run)

    def close(self) -> None:
        """Close the gate, call everything off and end the threads."""
        self._calls.clear()
        self.gate.close_it()
        self._pool.close()
        if self._hub is not None:
            from app.hub.library import let_go

            let_go(self.gate)
        self.gate.shut_down()


def _ignore(_: object) -> None:
    """Nobody waits for this answer; the state tells of it."""


def _trouble_of(error: Exception) -> HubTrouble:
    from app.gguf.refusal import HeaderRefused
    from app.hub.faults import HubFault

    if isinstance(error, HubFault):
        return HubTrouble(error.kind, error.sentence, error.retry_after_s)
    if isinstance(error, HeaderRefused):
        return HubTrouble("not_usable", error.sentence)
    if isinstance(error, Refusal):
        return HubTrouble("not_found", error.sentence)
    _log.error("a question to the hub failed", exc_info=error)
    return HubTrouble("fault", OUR_FAULT)
