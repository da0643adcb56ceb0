"""The engines that the user entered, each with what it answered last.

Each is asked on a thread beside the window's: when it is tried, when it or its key has changed, and
when somebody looks at the list of models and the last answer is older than `FRESH_S`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from app.chat.hub.hub_pool import HubPool
from app.chat.settings.settings import checked
from app.chat.surroundings import ALWAYS, Surroundings
from app.engine.protocol.remote_messages import (
    EngineAddress,
    EngineOffer,
    engine_and_model,
    model_name,
    remote_path,
)
from app.hub.engine_keys import STILL_THERE, THIS_RUN_ONLY, EngineKeys, checked_key, name_of
from app.hub.gate import Call, CalledOff
from app.refusal import Refusal
from app.server.options import is_loopback
from models.records import Weights

AskServer = Callable[[EngineAddress, "str | None"], EngineOffer]
"""What answers at an address. It waits, and raises what has a `sentence`."""
Then = Callable[[str], None]
"""Gets why something was refused; nothing: it was done."""

FRESH_S: Final = 20.0
OUR_FAULT: Final = "Something went wrong in Cutaway. Try again; the log has the details."
REMOVED: Final = "This engine was removed from Settings → Engines. Add it again or choose another."

OWN_SERVER: Final = (
    "This is the server of this window itself. Its model is in the model menu already."
)

_log = logging.getLogger(__name__)


def _nothing() -> None: ...


@dataclass(frozen=True, slots=True)
class Standing:
    """An engine as it is known now. `offer`: what it said of itself when it was asked last;
    `sentence`: why it did not answer then. `key_note`: what else is to be known of its key."""

    address: EngineAddress
    key: Literal["none", "keyring", "this run"] = "none"
    is_asking: bool = False
    offer: EngineOffer | None = None
    sentence: str = ""
    key_note: str = ""

    def models(self) -> list[Weights]:
        """Its models, as weights that can be chosen."""
        return [
            Weights(remote_path(self.address.id, each.id), model_name(each.id), each.size_bytes)
            for each in (self.offer.models if self.offer is not None else ())
        ]


class EngineList:
    """Made by the desk. `set_setting` changes a setting as the desk does."""

    def __init__(
        self,
        around: Surroundings,
        set_setting: Callable[[str, Any], None],
        keys: EngineKeys,
        ask: AskServer,
    ) -> None:
        self._around = around
        self._set_setting = set_setting
        self._keys = keys
        self._ask = ask
        self._pool = HubPool()
        self._calls: dict[str, Call] = {}
        self._asked_at: dict[str, float] = {}
        self._said: dict[str, Standing] = {}
        self._followers: list[Callable[[], None]] = []

    # --- what is known --------------------------------------------------------------------------

    @property
    def all(self) -> tuple[Standing, ...]:
        """In the order in which they were added."""
        return tuple(self._standing(each) for each in self._around.settings.engines)

    def _standing(self, address: EngineAddress) -> Standing:
        said = self._said.get(address.id)
        if said is None or said.address.url != address.url:
            said = Standing(address)
        name = name_of(address.id, address.url)
        key: Literal["none", "keyring", "this run"] = "none"
        if address.key_name == name:
            key = "keyring"
        elif self._keys.has_for_now(name):
            key = "this run"
        return replace(said, address=address, key=key, is_asking=address.id in self._calls)

    def address_of(self, path: str) -> EngineAddress | None:
        """Of the engine whose model this path is; None where it is none, or is not listed."""
        engine_id, _ = engine_and_model(path)
        found = (each for each in self._around.settings.engines if each.id == engine_id)
        return next(found, None)

    def name_of_path(self, path: str) -> str:
        """What people know a remote model by: its own name, and whose it is."""
        address, (_, model) = self.address_of(path), engine_and_model(path)
        name = model_name(model)
        return f"{name} · {address.name}" if address is not None else name

    def key_of(self, address: EngineAddress) -> str | None:
        """The key to send there. May wait for the keyring."""
        return self._keys.key(address.id, address.url, address.key_name)

    def follow(self, follower: Callable[[], None]) -> Callable[[], None]:
        """Call it whenever something is known otherwise. Returns what ends it."""
        self._followers.append(follower)
        return lambda: self._followers.remove(follower)

    def _tell(self) -> None:
        for follower in list(self._followers):
            follower()

    # --- changing the list ----------------------------------------------------------------------

    def add(self, name: str, url: str, key: str, then: Then) -> None:
        """One more, which is asked at once what it is."""
        self._put(EngineAddress(uuid.uuid4().hex[:8], name, url), key, then)

    def change(self, engine_id: str, name: str, url: str, key: str, then: Then) -> None:
        """`key` empty: it stays, unless the address leads to another place."""
        found = next((e for e in self._around.settings.engines if e.id == engine_id), None)
        if found is None:
            then(REMOVED)
            return
        self._put(msgspec.structs.replace(found, name=name, url=url), key, then)

    def _put(self, address: EngineAddress, key: str, then: Then) -> None:
        engines = self._around.settings.engines
        others = [each for each in engines if each.id != address.id]
        place = next((i for i, each in enumerate(engines) if each.id == address.id), len(others))
        try:
            listed = checked("engines", [*others[:place], address, *others[place:]])
            address = next(each for each in listed if each.id == address.id)
            if key.strip():
                key = checked_key(key)
            if self._is_own(address.url):
                raise Refusal("bad_setting", OWN_SERVER)
        except Refusal as refused:
            then(refused.sentence)
            return
        name = name_of(address.id, address.url)
        former = next((each.key_name for each in engines if each.id == address.id), "")
        if former and former != name:  # it was for another place, and stays there for nobody
            self._forget(former, is_in_keyring=True)
        kept = former if former == name else ""
        self._write(msgspec.structs.replace(address, key_name=kept))
        if key.strip():
            self._keep(address.id, name, key)
        else:
            self.try_now(address.id)
        then("")

    def _is_own(self, url: str) -> bool:
        """Whether the window's own server is there: its model would ask itself without end."""
        settings, at = self._around.settings, urlsplit(url)
        is_here = at.hostname == settings.server_address or is_loopback(at.hostname or "")
        return settings.server_on and is_here and at.port == settings.server_port

    def remove(self, engine_id: str) -> None:
        engines = self._around.settings.engines
        found = next((each for each in engines if each.id == engine_id), None)
        if found is None:
            return
        self._call_off(engine_id)
        self._said.pop(engine_id, None)
        self._set_setting("engines", tuple(each for each in engines if each is not found))
        self._forget_key_of(found)
        self._tell()

    def forget_key(self, engine_id: str) -> None:
        """It is not sent any more."""
        found = next((e for e in self._around.settings.engines if e.id == engine_id), None)
        if found is None:
            return
        self._write(msgspec.structs.replace(found, key_name=""))
        self._forget_key_of(found, lambda: self.try_now(engine_id))

    def _forget_key_of(self, address: EngineAddress, then: Callable[[], None] = _nothing) -> None:
        name = name_of(address.id, address.url)
        if address.key_name or self._keys.has_for_now(name):
            is_kept = bool(address.key_name)
            self._forget(address.key_name or name, is_in_keyring=is_kept, then=then)

    def _write(self, address: EngineAddress) -> None:
        engines = self._around.settings.engines
        if any(each.id == address.id for each in engines):
            listed = [address if each.id == address.id else each for each in engines]
        else:
            listed = [*engines, address]
        self._set_setting("engines", tuple(listed))
        self._tell()

    def _keep(self, engine_id: str, name: str, key: str) -> None:
        """The keyring may ask the user, and wait."""

        def kept(where: str) -> None:
            found = next((e for e in self._around.settings.engines if e.id == engine_id), None)
            if found is None or name_of(found.id, found.url) != name:
                return
            if where == "keyring":
                self._write(msgspec.structs.replace(found, key_name=name))
            self._note(found, "" if where == "keyring" else THIS_RUN_ONLY)
            self.try_now(engine_id)

        self._in_background(lambda: self._keys.keep(name, key), kept)

    def _forget(
        self, name: str, *, is_in_keyring: bool, then: Callable[[], None] = _nothing
    ) -> None:
        def gone(is_gone: bool) -> None:
            engine_id = name.partition(" ")[0]
            found = next((e for e in self._around.settings.engines if e.id == engine_id), None)
            if found is not None:
                self._note(found, "" if is_gone else STILL_THERE)
                then()

        forget = partial(self._keys.forget, name, is_in_keyring=is_in_keyring)
        self._in_background(forget, gone)

    def _note(self, address: EngineAddress, sentence: str) -> None:
        self._said[address.id] = replace(self._standing(address), key_note=sentence)
        self._tell()

    def _in_background(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        def run() -> None:
            result = work()
            self._around.hand_over(lambda: then(result), ALWAYS)  # it looks at what is listed

        self._pool.put(Call(), run)

    # --- asking ---------------------------------------------------------------------------------

    def look(self) -> None:
        """Somebody looks at what there is: whoever has not answered lately is asked again."""
        now = self._around.clock()
        for each in self._around.settings.engines:
            asked_at = self._asked_at.get(each.id)
            if each.id not in self._calls and (asked_at is None or now - asked_at > FRESH_S):
                self.try_now(each.id)

    def try_now(self, engine_id: str) -> None:
        """Ask what it is, which models it has and what it can."""
        address = next((e for e in self._around.settings.engines if e.id == engine_id), None)
        if address is None or self._around.is_closing:
            return
        self._call_off(engine_id)
        call = self._calls[engine_id] = Call()
        self._asked_at[engine_id] = self._around.clock()

        def is_wanted() -> bool:
            return self._calls.get(engine_id) is call

        def settle(offer: EngineOffer | None, sentence: str) -> None:
            del self._calls[engine_id]
            standing = self._standing(address)
            self._said[engine_id] = replace(standing, offer=offer, sentence=sentence)
            self._tell()

        def run() -> None:
            try:
                offer, sentence = self._ask(address, self.key_of(address)), ""
            except CalledOff:
                return
            except Exception as error:  # noqa: BLE001 - each says in words what it is
                offer, sentence = None, getattr(error, "sentence", "")
                if not sentence:
                    _log.error("a server could not be asked", exc_info=error)
                    sentence = OUR_FAULT
            self._around.hand_over(lambda: settle(offer, sentence), is_wanted)

        self._pool.put(call, run)
        self._tell()

    def _call_off(self, engine_id: str) -> None:
        call = self._calls.pop(engine_id, None)
        if call is not None:
            call.cancel()

    def on_settings_changed(self) -> None:
        """The list has changed, or whether connections may be made."""
        ids = {each.id for each in self._around.settings.engines}
        for engine_id in set(self._calls) - ids:
            self._call_off(engine_id)
        self._asked_at.clear()
        self._tell()

    def close(self) -> None:
        for engine_id in list(self._calls):
            self._call_off(engine_id)
        self._pool.close()
