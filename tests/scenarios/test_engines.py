"""One conversation: begun on the included model (scripted), continued on a server, back again. What
the panels show is of the engine that wrote the reply, or a reason, and of no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted_servers import (
    DONE,
    ScriptedServer,
    Stream,
    delta,
    finish,
    llama_server,
    logprobs,
    sse,
    token,
    usage,
)

from app.chat.replies.written_by import writer_of

LOCAL = {"replies": [{"text": "From the included model."}]}
CHAT = "/v1/chat/completions"


def told(text: str, nats: float, *top: tuple[str, float]) -> dict[str, Any]:
    entry = token(text, nats, *top, id=hash(text) % 40_000)
    for number, each in enumerate(entry["top_logprobs"]):
        each["id"] = 100 + number
    return delta(text, logprobs(entry))


ANSWER = Stream(
    sse(
        told("From", -0.1, ("From", -0.1), ("To", -2.5)),
        told(" the", -0.2, (" the", -0.2), (" a", -1.9)),
        told(" server", -0.7, (" server", -0.7), (" box", -0.9)),
        finish("stop"),
        usage(31, 3, prompt_tokens_details={"cached_tokens": 12}),
        DONE,
    )
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(llama_server()) as made:
        made.answers[CHAT] = ANSWER
        yield made


def added(person: Any, server: ScriptedServer) -> str:
    """The path of the server's model, once it has said what it has."""
    engines = person.app.desk.engines
    said: list[str] = []
    engines.add("Box", server.url, "", said.append)
    assert said == [""]
    person.wait(lambda: engines.all and not engines.all[0].is_asking)
    assert engines.all[0].sentence == ""
    return engines.all[0].models()[0].path


def load(person: Any, path: str) -> None:
    person.app.desk.loader.load(path)
    person.wait(
        lambda: (
            person.app.desk.loader.state.state == "ready"
            and person.app.desk.loader.loaded is not None
            and person.app.desk.loader.loaded.path == path
        )
    )


def test_one_conversation_goes_to_a_server_and_back(
    open_window: Callable[..., Any], server: ScriptedServer
) -> None:
    person = open_window(LOCAL, is_offline=False)
    person.wait_ready()
    desk = person.app.desk
    here = desk.loader.path
    person.send("First?")
    first = person.wait_ended()
    assert writer_of(first.settings) is None
    path = added(person, server)
    load(person, path)
    assert person.window.chat.header.weights_button.text().startswith("m · Box")
    person.send("Second?")
    second = person.wait_ended()
    assert second.content == "From the server"
    print(second.settings.get("engine"), second.counts, second.token_ids, second.seed)
    print(second.settings.keys())
    print(server.asked(CHAT)[-1].body)
    load(person, here)
    person.send("Third?")
    third = person.wait_ended()
    assert third.content == LOCAL["replies"][0]["text"]
    assert writer_of(third.settings) is None
