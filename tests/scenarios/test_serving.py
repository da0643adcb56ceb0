"""Other programs use the window's own model: by the real client, through the real server."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import bpe_vocabulary, tiny_llama
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QMenu
from scripted_servers import DONE, HOLD, ScriptedServer, Stream, delta, finish, ollama, sse

from app.chat.server.log import CLIENT_LEFT
from app.server.errors import UNLOADED
from models.records import MessageState, Role
from ui.windows.server.acts import KEY
from ui.windows.server.window import RequestsWindow

SCHEMA = {
    "type": "object",
    "properties": {
        "animal": {"type": "string", "maxLength": 20},
        "legs": {"enum": [0, 2, 4, 6, 8]},
    },
    "required": ["animal", "legs"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}
SCRIPT = {
    "load": {"ms": 1},
    "replies": [
        {"match": "slow", "tokens": [{"text": "slow ", "ms": 5, "repeat": 4000}]},
        {"match": "animal", "text": '{"animal": "cat", "legs": 4}'},
        {"text": "Hello."},
    ],
}
Open = Callable[..., Any]


class Script(threading.Thread):
    """Somebody's program, with the `openai` package. `said` is what it got, whole or in pieces."""

    def __init__(self, url: str, prompt: str, **fields: Any) -> None:
        super().__init__(daemon=True)
        self.said: list[str] = []
        self.error: Exception | None = None
        self._url, self._prompt, self._fields = url, prompt, fields
        self.start()

    def run(self) -> None:
        from openai import APIError, OpenAI

        try:
            with OpenAI(base_url=f"{self._url}/v1", api_key="none", max_retries=0) as client:
                answer = client.chat.completions.create(
                    model="default",
                    messages=[{"role": "user", "content": self._prompt}],
                    **self._fields,
                )
                if self._fields.get("stream"):
                    for chunk in answer:
                        self.said.append(chunk.choices[0].delta.content or "")
                else:
                    self.said.append(answer.choices[0].message.content)
        except (APIError, OSError) as error:
            self.error = error


@pytest.fixture
def serving(open_window: Open) -> Any:
    """A window that serves."""
    return serve(open_window(SCRIPT))


def serve(person: Any) -> Any:
    person.wait_ready()
    person.app.desk.settings.set("server_port", 0)
    person.window.action_registry.run("server_switch")
    person.wait(lambda: person.app.desk.server.state.state == "on")
    return person


def url_of(person: Any) -> str:
    return str(person.app.desk.server.state.url)


def requests(person: Any) -> RequestsWindow:
    person.window.action_registry.run("server_requests")
    return person.wait(lambda: person.window.findChild(RequestsWindow, "requests_window"))


def is_free(url: str) -> bool:
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def test_a_script_gets_an_object_while_the_chat_goes_on(open_window: Open, tmp_path: Path) -> None:
    """On a network of some thousand random weights: the schema alone makes it an object. Its window
    holds a reply that is longer than the script takes on any machine."""
    tiny_llama(tmp_path / "tiny.gguf", vocabulary=bpe_vocabulary(), n_ctx_train=8192)
    person = serve(open_window(None, "--gguf", str(tmp_path / "tiny.gguf")))
    desk = person.app.desk
    desk.settings.set("ban_end_token", True)
    import openai  # noqa: F401 - so that the reply doesn't run for the second that this takes

    person.send("Go on and on.")
    person.wait_growing(5)
    script = Script(url_of(person), "Name an animal.", response_format=FORMAT, max_tokens=200)
    person.wait(lambda: not script.is_alive())
    growing = person.reply()
    person.window.action_registry.run("stop")
    assert growing.state is MessageState.STREAMING
    assert person.wait_ended().state is MessageState.STOPPED
    found = json.loads(script.said[0])
    assert set(found) == {"animal", "legs"}
    assert found["legs"] in (0, 2, 4, 6, 8)
    n_then = len(growing.token_ids)
    row = person.wait(lambda: next(iter(desk.server.log), None))
    person.wait(lambda: row.is_over and not desk.server.is_busy)
    assert n_then > 5
    told: list[Any] = []
    desk.server.open(row.number)
    desk.prompts.read(desk.shelf.path[-1].id, told.append, still=lambda: True)
    assert person.wait(lambda: told)[0].is_given


def test_what_was_asked_is_listed_and_opened_as_a_chat(serving: Any) -> None:
    desk = serving.app.desk
    script = Script(url_of(serving), "Name an animal.", response_format=FORMAT)
    serving.wait(lambda: not script.is_alive() and not desk.server.is_busy)
    assert json.loads(script.said[0]) == {"animal": "cat", "legs": 4}
    assert serving.find(QLabel, "status_server").text().startswith("server :")
    serving.click("status_server")
    menu = serving.wait(lambda: serving.window.findChild(QMenu, "server_menu"))
    menu.actions()[0].trigger()
    menu.close()
    assert QGuiApplication.clipboard().text() == f"{url_of(serving)}/v1"
    window = requests(serving)
    assert window.chosen.client.endswith("OpenAI/Python")
    QTest.keyClick(window.table, Qt.Key.Key_Return)
    assert desk.server.opened.is_on_screen
    assert [m.content for m in desk.shelf.path] == ["Name an animal.", script.said[0]]
    banners = serving.window.chat.banners._cards
    save, *_ = banners[KEY].notice.acts
    save.run()
    serving.wait(lambda: desk.shelf.conversations)
    serving.type("Hi")  # at once: it goes along
    serving.wait(lambda: desk.shelf.open.id == desk.shelf.conversations[0].id)
    assert KEY not in banners
    assert serving.written() == "Hi"
    serving.press(Qt.Key.Key_Return)
    serving.wait(lambda: len(desk.shelf.path) == 4)
    assert serving.wait_ended().state is MessageState.COMPLETE


def test_one_that_runs_is_followed_stopped_and_copied(serving: Any) -> None:
    desk = serving.app.desk
    script = Script(url_of(serving), "Be slow.", stream=True)
    window = requests(serving)
    serving.wait(lambda: window.chosen is not None and (window.chosen.tokens_out or 0) > 2)
    window.open_button.click()
    grown = serving.wait_growing(20)
    assert grown.role is Role.ASSISTANT
    window.curl_button.click()
    assert url_of(serving) in QGuiApplication.clipboard().text()
    assert '"content":"Be slow."' in QGuiApplication.clipboard().text()
    window.stop_button.click()
    serving.wait(lambda: not script.is_alive() and not desk.server.is_busy)
    assert "stopped in Cutaway" in str(script.error)
    assert serving.reply().content.startswith("".join(script.said))
    serving.wait(lambda: window.chosen.state == "stopped" and "Stopped" in window.words.text())


def test_a_client_that_goes_is_said(serving: Any) -> None:
    host, _, port = url_of(serving).removeprefix("http://").rpartition(":")
    body = json.dumps({"messages": [{"role": "user", "content": "slow"}], "stream": True})
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        client.recv(1000)
    window = requests(serving)
    serving.wait(lambda: window.chosen is not None and window.chosen.is_over)
    assert (window.chosen.state, window.chosen.why) == ("stopped", CLIENT_LEFT)


def test_closed_in_mid_stream_it_leaves_no_port(serving: Any) -> None:
    url = url_of(serving)
    script = Script(url, "Be slow.", stream=True)
    serving.wait(lambda: any((row.tokens_out or 0) > 2 for row in serving.app.desk.server.log))
    serving.app.close()
    assert is_free(url)
    script.join(20)
    assert not script.is_alive()


def test_without_a_model_it_is_loaded_or_refused_in_words(serving: Any) -> None:
    desk = serving.app.desk
    serving.window.action_registry.run("unload_weights")
    serving.wait(lambda: desk.loader.state.state == "stopped")
    script = Script(url_of(serving), "Hi")
    serving.wait(lambda: not script.is_alive())
    assert script.said == ["Hello."]
    desk.settings.set("server_loads", False)
    serving.window.action_registry.run("unload_weights")
    serving.wait(lambda: desk.loader.state.state == "stopped")
    script = Script(url_of(serving), "Hi")
    serving.wait(lambda: not script.is_alive())
    assert "No model is loaded in Cutaway." in str(script.error)


def test_the_model_that_goes_in_mid_request_ends_it_in_words(serving: Any) -> None:
    script = Script(url_of(serving), "Be slow.", stream=True)
    serving.wait(lambda: any((row.tokens_out or 0) > 2 for row in serving.app.desk.server.log))
    serving.window.action_registry.run("unload_weights")
    serving.wait(lambda: not script.is_alive() and not serving.app.desk.server.is_busy)
    row = next(iter(serving.app.desk.server.log))
    assert (row.state, row.why) == ("stopped", UNLOADED)
    assert UNLOADED in str(script.error)


def test_a_model_of_another_server_is_served_beside_its_chat(open_window: Open) -> None:
    answers = [
        Stream([*sse(delta("Slow")), HOLD]),
        Stream(sse(delta("Served."), finish("stop"), DONE)),
    ]
    with ScriptedServer({**ollama(), "/v1/chat/completions": answers}) as other:
        person = serve(open_window(SCRIPT, is_offline=False))
        desk = person.app.desk
        desk.engines.add("Box", other.url, "", lambda _: None)
        person.wait(lambda: desk.engines.all and desk.engines.all[0].offer)
        path = desk.engines.all[0].models()[0].path
        desk.loader.load(path)
        person.wait(lambda: desk.loader.is_ready and desk.loader.loaded.path == path)
        person.send("Go on and on.")
        person.wait(lambda: person.reply() is not None and person.reply().content == "Slow")
        script = Script(url_of(person), "Hi")
        person.wait(lambda: not script.is_alive() and not desk.server.is_busy)
        assert (script.said, script.error) == (["Served."], None)
        assert person.reply().state is MessageState.STREAMING
        person.window.action_registry.run("stop")
        person.wait_ended()
        row = next(iter(desk.server.log))
        assert (row.model, row.tokens_in) == ("m", None)
        desk.server.open(row.number)
        assert [m.content for m in desk.shelf.path] == ["Hi", "Served."]


@pytest.mark.soak
def test_the_starter_file_answers_in_the_form_asked_for(open_window: Open) -> None:
    person = serve(open_window())
    person.app.desk.settings.set("max_tokens", 200)
    person.send("Write a long story about the sea.")
    person.wait_growing(20)
    for seed in range(5):
        script = Script(url_of(person), "Name an animal.", response_format=FORMAT, seed=seed)
        person.wait(lambda script=script: not script.is_alive())
        found = json.loads(script.said[0])
        assert set(found) == {"animal", "legs"}
        assert found["legs"] in (0, 2, 4, 6, 8)
    person.wait_ended()
    for row in tuple(person.app.desk.server.log):
        person.app.desk.server.open(row.number)
        told: list[Any] = []
        reply = person.app.desk.shelf.path[-1]
        person.app.desk.prompts.read(reply.id, told.append, still=lambda: True)
        assert person.wait(lambda told=told: told)[0].is_given
