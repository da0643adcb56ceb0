"""The server while a model of another server is loaded: the same answers, and nothing invented."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import scripted_servers as servers
from remote_talk import CHAT, WAIT_S
from scripted_servers import DONE, HOLD, ScriptedServer, Stream, delta, finish, logprobs, sse, token
from serving import Served, serving

from app.engine.protocol.remote_messages import EngineAddress, remote_path
from app.engine.remote.engine import Reach, RemoteEngine
from app.hub.gate import Gate
from app.server.errors import STOPPED, UNLOADED

TOKEN = token("Hi", -0.25, ("Hi", -0.25), ("Ho", -1.5))
SCORED = Stream(sse(delta("Hi", logprobs(TOKEN)), finish("stop"), DONE))
HELD = Stream([*sse(delta("Hi")), HOLD])


@contextmanager
def away(
    answers: dict[str, Any], answer: Stream, model: str = "m"
) -> Iterator[tuple[Served, ScriptedServer, RemoteEngine]]:
    """Serves what such a server has."""
    with ScriptedServer({**answers, CHAT: answer}) as other:
        gate = Gate()
        gate.let_here(lets=True)
        address = EngineAddress("e1", "Mine", other.url, "e1")
        engine = RemoteEngine(Reach(gate, lambda _: address, lambda _: None), lambda _: None)
        try:
            engine.wait_for(engine.load(remote_path("e1", model)), WAIT_S)
            with serving(engine) as served:  # type: ignore[arg-type]
                yield served, other, engine
        finally:
            engine.close()
            gate.shut_down()


def test_its_model_answers_with_the_scores_that_its_server_gave() -> None:
    with away(servers.vllm(), SCORED) as (served, other, _):
        answer = served.chat(logprobs=True, top_logprobs=2, temperature=0.5, top_k=3)
        assert answer.status == 200, answer.body
        (choice,) = answer.json["choices"]
        (score,) = choice["logprobs"]["content"]
        assert (score["token"], score["logprob"]) == ("Hi", -0.25)
        assert "id" not in score
        assert [each["token"] for each in score["top_logprobs"]] == ["Hi", "Ho"]
        asked = other.asked(CHAT)[-1].body
        assert (asked["temperature"], asked["top_k"]) == (0.5, 3)
        assert answer.json["usage"] is None  # it did not tell


def test_pictures_go_on_to_a_server_that_may_see_and_to_no_other() -> None:
    url = "data:image/png;base64,iVBORw0KGgouLg=="
    picture = {"type": "image_url", "image_url": {"url": url}}
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, picture]}]}
    with away(servers.vllm(), SCORED) as (served, other, _):
        assert served.ask("/v1/chat/completions", body).status == 200
        (said,) = other.asked(CHAT)[-1].body["messages"]
        assert said["content"] == body["messages"][0]["content"]
        (model,) = served.ask("/v1/models").json["data"]
        assert "architecture" not in model  # nobody told
    with away(servers.llama_server(), SCORED) as (served, other, _):
        answer = served.ask("/v1/chat/completions", body)
        assert (answer.status, answer.error["code"]) == (400, "unsupported")
        assert "“m” takes no pictures" in answer.error["message"]
        assert not other.asked(CHAT)
        (model,) = served.ask("/v1/models").json["data"]
        assert model["architecture"]["input_modalities"] == ["text"]


def test_what_it_does_not_say_is_no_zero_and_no_limit() -> None:
    with away(servers.plain("Qwen/Qwen3-4B"), SCORED, "Qwen/Qwen3-4B") as (served, _, _):
        (model,) = served.ask("/v1/models").json["data"]
        assert (model["id"], model["meta"]) == ("Qwen/Qwen3-4B", {})
        assert served.ask("/v1/models/Qwen/Qwen3-4B").status == 200
        assert served.chat("long " * 1000, model="Qwen/Qwen3-4B").status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "Hi"}),
        ("/v1/embeddings", {"input": [1, 2]}),
        ("/tokenize", {"content": "Hi"}),
        ("/detokenize", {"tokens": [1]}),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Hi"}]}),
    ],
)
def test_what_it_cannot_is_refused_with_the_reason(
    away_plain: Served, path: str, body: Any
) -> None:
    answer = away_plain.ask(path, body)
    assert answer.status == 400
    message = answer.error["message"]
    assert message.endswith(".")
    assert len(message) > 20


@pytest.fixture(scope="module")
def away_plain() -> Iterator[Served]:
    with away(servers.ollama(), SCORED) as (served, _, _):
        yield served


@pytest.mark.parametrize(("is_unloaded", "sentence"), [(False, STOPPED), (True, UNLOADED)])
def test_who_ended_it_is_told_as_it_was(*, is_unloaded: bool, sentence: str) -> None:
    with away(servers.vllm(), HELD) as (served, other, engine):
        with closing(served.connect()) as connection:
            body = b'{"messages": [{"role": "user", "content": "Hi"}], "stream": true}'
            kind = {"Content-Type": "application/json"}
            connection.request("POST", CHAT, body, kind)
            response = connection.getresponse()
            assert b"data" in response.readline()
            if is_unloaded:
                engine.unload()
            else:
                engine.stop(served.exchanges[0].replies[0].request_id)
            assert sentence.encode() in response.read()
        assert other.ended.wait(WAIT_S)
