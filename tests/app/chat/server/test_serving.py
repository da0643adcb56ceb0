"""The switch: when it starts, what it starts with, and what happens when that does not go."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from fake_server import FakeServer
from keyring_ring import Ring

from app.chat import events
from app.chat.server import serving
from app.chat.settings.settings import checked
from app.refusal import Refusal


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def room(make_room: Callable[..., Any], server: FakeServer) -> Any:
    return make_room(server=server.start).start_ready()


def states(room: Any) -> list[str]:
    return [event.state for event in room.of(events.ServerChanged)]


def turned_on(room: Any) -> None:
    room.desk.server.set_on(True)
    room.until(lambda: room.desk.server.state.state == "on", "the server")


def test_it_is_off_until_somebody_wants_it(room: Any, server: FakeServer) -> None:
    room.pump()
    assert (server.begun, room.desk.server.state.state) == ([], "off")
    turned_on(room)
    assert room.desk.server.state.url == server.url
    assert server.begun[0].host == "127.0.0.1"
    assert server.begun[0].is_guest
    room.desk.server.set_on(False)
    room.until(lambda: room.desk.server.state.state == "off", "its end")
    assert server.n_closed == 1
    assert states(room) == ["starting", "on", "stopping", "off"]


def test_it_is_remembered_and_starts_when_the_model_is_there(
    make_room: Callable[..., Any], server: FakeServer
) -> None:
    first = make_room(server=server.start).start_ready()
    turned_on(first)
    first.close()
    assert server.n_closed == 1
    again = make_room(server=server.start)
    again.start()
    assert len(server.begun) == 1 or again.desk.loader.loaded is not None
    again.until(lambda: again.desk.server.state.state == "on", "the server")
    assert again.desk.loader.loaded is not None


def test_without_a_model_it_starts_too(
    make_room: Callable[..., Any], server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.gguf.starter.find", lambda: None)
    room = make_room(server=server.start, gguf=None).start()
    room.desk.settings.set("server_on", True)
    room.until(lambda: room.desk.server.state.state == "on", "the server")
    asked = server.wake()
    room.until(asked.done, "the answer")
    assert asked.result() == serving.NO_MODEL


def test_a_port_that_is_taken_is_a_sentence_and_another_one_is_tried(
    room: Any, server: FakeServer
) -> None:
    server.taken.add(8642)
    room.desk.server.set_on(True)
    room.until(lambda: room.desk.server.state.state == "failed", "the failure")
    assert room.desk.server.state.sentence == "Port 8642 is in use."
    assert room.of(events.Noticed)[-1].sentence == "Port 8642 is in use."
    room.desk.settings.set("server_port", 8643)
    room.until(lambda: room.desk.server.state.state == "on", "the server")
    assert server.begun[-1].port == 8643


def test_what_is_wanted_by_then_counts(room: Any, server: FakeServer) -> None:
    room.desk.server.set_on(True)
    room.desk.server.set_on(False)  # before it has begun to listen
    room.until(lambda: room.desk.server.state.state == "off", "its end")
    assert (len(server.begun), server.n_closed) == (1, 1)


def test_a_server_that_ends_by_itself_says_so(room: Any, server: FakeServer) -> None:
    turned_on(room)
    server.failed("The server stopped: OSError.")
    room.until(lambda: room.desk.server.state.state == "failed", "its end")
    assert room.of(events.Noticed)[-1].sentence == "The server stopped: OSError."
    room.desk.server.set_on(True)
    room.until(lambda: room.desk.server.state.state == "on", "the server")
    server.begun.clear()


def test_a_fault_of_ours_is_a_sentence(room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.desk.server, "_start", lambda *_, **__: 1 / 0)
    room.desk.server.set_on(True)
    room.until(lambda: room.desk.server.state.state == "failed", "the failure")
    assert room.desk.server.state.sentence == serving.OUR_FAULT


def test_another_address_needs_a_key(room: Any, server: FakeServer) -> None:
    room.desk.settings.set("server_address", "0.0.0.0")
    room.desk.server.set_on(True)
    room.until(lambda: room.desk.server.state.state == "failed", "the refusal")
    assert "key" in room.desk.server.state.sentence
    made: list[str] = []
    room.desk.server.make_key(lambda: made.append(room.desk.server.key))
    room.until(lambda: room.desk.server.state.state == "on", "the server")
    assert server.begun[-1].key == made[0] != ""
    room.desk.server.remove_key(lambda: made.append("gone"))
    room.pump()
    assert room.of(events.Noticed)[-1].sentence == serving.KEY_IS_NEEDED
    room.desk.settings.set("server_address", "127.0.0.1")
    room.until(lambda: room.desk.server.state.state == "on", "the server")
    room.desk.server.remove_key(lambda: made.append("gone"))
    room.until(lambda: made[-1] == "gone", "its end")
    room.until(lambda: not server.begun[-1].key, "without one")


def test_the_key_is_in_the_keyring_and_read_at_the_next_start(
    make_room: Callable[..., Any], server: FakeServer, ring: Ring
) -> None:
    first = make_room(server=server.start).start_ready()
    first.desk.settings.set("server_address", "0.0.0.0")
    first.desk.server.make_key(lambda: None)
    first.until(lambda: first.desk.server.key, "the key")
    made = first.desk.server.key
    turned_on(first)
    first.close()
    assert list(ring.kept.values()) == [made]
    again = make_room(server=server.start).start_ready()
    again.until(lambda: again.desk.server.state.state == "on", "the server")
    assert server.begun[-1].key == made
    again.close()
    ring.kept.clear()  # by somebody else
    bare = make_room(server=server.start).start_ready()
    bare.until(lambda: bare.desk.server.state.state == "failed", "no key")
    assert serving.KEY_IS_GONE in [event.sentence for event in bare.of(events.Noticed)]


def test_offline_it_serves_this_computer_alone(room: Any, server: FakeServer) -> None:
    turned_on(room)
    room.desk.settings.set("offline", True)
    room.pump()
    assert room.desk.server.state.state == "on"
    room.desk.settings.set("server_address", "0.0.0.0")
    room.until(lambda: room.desk.server.state.state == "failed", "its end")
    assert room.desk.server.state.sentence == serving.OFFLINE
    assert server.n_closed == 1
    room.desk.server.make_key(lambda: None)
    room.desk.settings.set("offline", False)
    room.until(lambda: room.desk.server.state.state == "on", "the server")


def test_a_second_window_leaves_the_port_to_the_first(
    make_room: Callable[..., Any], server: FakeServer
) -> None:
    first = make_room(server=server.start).start_ready()
    turned_on(first)
    first.store.all_settings().result(20)
    second = make_room(server=server.start, read_only=True).start_ready()
    second.until(lambda: second.desk.settings.now.server_on, "what is remembered")
    second.pump()
    assert (len(server.begun), second.desk.server.state.state) == (1, "off")
    second.desk.server.set_on(True)
    second.until(lambda: second.desk.server.state.state == "on", "by hand")


def test_it_has_the_names_and_pages_that_were_set(room: Any, server: FakeServer) -> None:
    room.desk.settings.set("server_names", "gpt-4o-mini,gpt-4o, ")
    room.desk.settings.set("server_origins", "http://localhost:3000/")
    turned_on(room)
    assert server.begun[-1].names == ("gpt-4o-mini", "gpt-4o")
    assert server.begun[-1].origins == ("http://localhost:3000",)
    with pytest.raises(Refusal, match="origins like"):
        checked("server_origins", "http://localhost/path")


def test_settings_that_change_turn_it_over(room: Any, server: FakeServer) -> None:
    turned_on(room)
    room.desk.settings.set("server_max_mb", 3)
    room.until(lambda: len(server.begun) == 2, "another start")
    room.until(lambda: room.desk.server.state.state == "on", "the server")
    assert server.begun[-1].limits.body_bytes == 3 * 2**20
    assert server.n_closed == 1


def test_a_model_that_was_unloaded_is_loaded_for_a_request(room: Any, server: FakeServer) -> None:
    turned_on(room)
    awake = server.wake()
    room.until(awake.done, "the answer")
    assert awake.result() == ""
    room.desk.loader.unload()
    room.until(lambda: room.desk.loader.state.state == "stopped", "its end")
    room.desk.settings.set("server_loads", False)
    refused = server.wake()
    room.until(refused.done, "the answer")
    assert refused.result() == serving.NO_MODEL
    room.desk.settings.set("server_loads", True)
    woken = server.wake()
    room.until(woken.done, "the model")
    assert woken.result() == ""
    assert room.desk.loader.loaded is not None


def test_whoever_waits_for_the_model_is_told_when_the_app_closes(
    room: Any, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned_on(room)
    monkeypatch.setattr(type(room.desk.loader), "is_loading", property(lambda _: True))
    waiting = server.wake()
    room.pump()
    room.close()
    assert waiting.result(0) == serving.NO_MODEL


def test_a_model_that_crashed_is_loaded_for_a_request(room: Any, server: FakeServer) -> None:
    turned_on(room)
    os.kill(room.desk.loader.engine.pid, signal.SIGKILL)
    room.until(lambda: room.desk.loader.state.state == "crashed", "its end")
    woken = server.wake()
    room.until(woken.done, "the model")
    assert woken.result() == ""
    assert room.desk.loader.loaded is not None
