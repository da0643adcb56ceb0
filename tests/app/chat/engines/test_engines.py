"""The list of engines: what is entered, kept, asked and said of them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from keyring_ring import Ring, in_use, no_ring

from app.chat.alarms import Alarms
from app.chat.engines.engines import FRESH_S, OWN_SERVER, EngineList
from app.chat.settings.settings import as_stored, changed, from_stored
from app.chat.surroundings import Surroundings
from app.engine.protocol.remote_messages import EngineAddress, EngineOffer, RemoteModel
from app.hub.engine_keys import SERVICE, THIS_RUN_ONLY, EngineKeys, name_of
from app.refusal import Refusal

URL = "http://box.example.org:8000"


def offer(address: EngineAddress) -> EngineOffer:
    models = [RemoteModel("org/small"), RemoteModel("org/large")]
    return EngineOffer(address.id, address.name, "vllm", "0.11", models)


class Owner:
    """The thread that owns the list is the test's; servers answer as `answer` says."""

    def __init__(self) -> None:
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.now = 0.0
        self.asked: list[tuple[str, str | None]] = []
        self.answer: Callable[[EngineAddress], EngineOffer] = offer
        self.around = Surroundings(
            post=self.posted.put,
            emit=lambda _event: None,
            alarms=Alarms(self.posted.put),
            clock=lambda: self.now,
        )
        self.list = self.begun()

    def begun(self) -> EngineList:
        return EngineList(self.around, self.set, EngineKeys(), self.ask)

    def set(self, name: str, value: Any) -> None:
        self.around.settings = changed(self.around.settings, name, value)
        self.list.on_settings_changed()

    def ask(self, address: EngineAddress, key: str | None) -> EngineOffer:
        self.asked.append((address.url, key))
        return self.answer(address)

    def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            self.posted.get(timeout=20)()

    def add(self, name: str = "Box", url: str = URL, key: str = "") -> str:
        said: list[str] = []
        self.list.add(name, url, key, said.append)
        if said == [""]:
            self.until(lambda: self.list.all[-1].offer or self.list.all[-1].sentence)
        return said[0]


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    with in_use(ring):
        yield ring


@pytest.fixture
def owner(ring: Ring) -> Iterator[Owner]:
    made = Owner()
    yield made
    made.list.close()
    made.around.alarms.close()


def test_an_engine_is_asked_once_it_is_added_and_its_models_can_be_chosen(owner: Owner) -> None:
    assert owner.add(url=f"{URL}/v1/chat/completions") == ""
    (standing,) = owner.list.all
    assert (standing.address.url, standing.key, standing.sentence) == (URL, "none", "")
    paths = [f"engine://{standing.address.id}/{name}" for name in ("org/small", "org/large")]
    assert [each.path for each in standing.models()] == paths
    assert owner.list.name_of_path(paths[0]) == "org/small · Box"
    assert owner.asked == [(URL, None)]


def test_what_cannot_be_is_refused_in_words_and_nothing_is_kept(owner: Owner, ring: Ring) -> None:
    owner.add()
    for name, url, key, word in (
        ("", URL, "", "Enter a name"),
        ("box", URL, "", "already"),
        ("Other", "http://", "", "isn't an address"),
        ("Other", URL, "two words", "isn't a key"),
    ):
        sentence = owner.add(name, url, key)
        assert word in sentence
        assert key == "" or key not in sentence
    assert len(owner.list.all) == 1
    assert ring.kept == {}


def test_a_key_goes_to_the_keyring_and_to_its_address_and_nowhere_else(
    owner: Owner, ring: Ring
) -> None:
    owner.add(key="sk-one")
    (standing,) = owner.list.all
    name = name_of(standing.address.id, URL)
    assert (standing.key, standing.key_note) == ("keyring", "")
    assert ring.kept == {(SERVICE, name): "sk-one"}
    assert owner.asked == [(URL, "sk-one")]
    assert "sk-one" not in repr(as_stored(owner.around.settings.engines))
    # The next run has it too.
    owner.list.close()
    owner.list = owner.begun()
    owner.list.try_now(standing.address.id)
    owner.until(lambda: owner.list.all[0].offer)
    assert owner.asked[-1] == (URL, "sk-one")
    # Another place gets none, and the key is kept for nobody.
    said: list[str] = []
    other = "http://other.example.org"
    owner.list.change(standing.address.id, "Box", other, "", said.append)
    owner.until(lambda: owner.asked[-1][0] == other and not ring.kept)
    assert said == [""]
    assert owner.asked[-1] == (other, None)
    assert owner.list.all[0].key == "none"


def test_without_a_keyring_it_is_kept_for_this_run_and_that_is_said(owner: Owner) -> None:
    with in_use(no_ring()):
        owner.add(key="sk-one")
        (standing,) = owner.list.all
        assert (standing.key, standing.key_note) == ("this run", THIS_RUN_ONLY)
        assert standing.address.key_name == ""
        owner.list.forget_key(standing.address.id)
        owner.until(lambda: len(owner.asked) == 2 and not owner.list.all[0].is_asking)
    assert owner.asked == [(URL, "sk-one"), (URL, None)]
    assert owner.list.all[0].key == "none"


def test_one_that_does_not_answer_is_told_and_asked_again_when_somebody_looks(
    owner: Owner,
) -> None:
    def fail(_address: EngineAddress) -> EngineOffer:
        raise Refusal("network", "Nothing answers there.")

    owner.answer = fail
    owner.add()
    assert owner.list.all[0].sentence == "Nothing answers there."
    owner.answer = offer
    owner.list.look()
    assert len(owner.asked) == 1  # just asked
    owner.now = FRESH_S + 1
    owner.list.look()
    owner.until(lambda: owner.list.all[0].offer)
    assert owner.list.all[0].sentence == ""
    # What it said stays while it is asked again, and goes when it fails.
    owner.answer = fail
    owner.list.try_now(owner.list.all[0].address.id)
    assert owner.list.all[0].is_asking
    assert owner.list.all[0].offer
    owner.until(lambda: not owner.list.all[0].is_asking)
    assert owner.list.all[0].offer is None


def test_an_answer_of_one_that_was_changed_or_removed_is_dropped(owner: Owner) -> None:
    goes_on, is_asked = threading.Event(), threading.Event()

    def slowly(address: EngineAddress) -> EngineOffer:
        is_asked.set()
        assert goes_on.wait(20)
        return offer(address)

    owner.answer = slowly
    said: list[str] = []
    owner.list.add("Box", URL, "", said.append)
    assert is_asked.wait(20)
    owner.list.remove(owner.list.all[0].address.id)
    goes_on.set()
    assert owner.list.all == ()
    owner.answer = offer
    owner.add("Other")
    assert [each.address.name for each in owner.list.all] == ["Other"]


def test_a_fault_of_ours_is_a_sentence(owner: Owner, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_address: EngineAddress) -> EngineOffer:
        raise ZeroDivisionError

    owner.answer = fail
    owner.add()
    assert "Something went wrong" in owner.list.all[0].sentence
    assert "could not be asked" in caplog.text


def test_what_is_stored_of_engines_is_checked(owner: Owner) -> None:
    owner.add(key="sk-one")
    stored = as_stored(owner.around.settings.engines)
    read, refused = from_stored({"engines": stored})
    assert (read.engines, refused) == (owner.around.settings.engines, ())
    good: dict[str, Any] = {"id": "a1", "name": "Box", "url": URL}
    for bad in (
        [{**good, "id": "../x"}],
        [{**good, "url": "file:///etc/passwd"}],
        [{**good, "key": "sk-one"}],
        [good, good],
        [good] * 51,
        "engines",
        [7],
    ):
        settings, refused = from_stored({"engines": bad})
        assert (settings.engines, refused) == ((), ("engines",))


def test_the_windows_own_server_is_no_engine_of_its_own(owner: Owner) -> None:
    owner.set("server_on", True)
    for url in ("http://127.0.0.1:8642", "http://localhost:8642/v1", "http://[::1]:8642"):
        assert owner.add(url=url) == OWN_SERVER
    assert owner.list.all == ()
    assert owner.add(url="http://127.0.0.1:8643") == ""
