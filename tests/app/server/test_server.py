"""Starting, stopping, and what the window is told."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from scripted_talk import PATIENCE_S, ScriptedTalk
from serving import SCRIPT, Served, scripted_server

from app.server.options import ServerOptions
from app.server.server import Server, ServerState


def test_each_request_is_told_with_its_reply(served: Served) -> None:
    served.chat()
    exchange = served.last()
    assert (exchange.endpoint, exchange.state) == ("/v1/chat/completions", "finished")
    assert exchange.who.startswith("127.0.0.1")
    assert exchange.model == "weights"
    (reply,) = exchange.replies
    assert reply.summary is not None
    assert reply.summary.text == "Hello"
    assert reply.events[-1] is reply.ending
    served.ask("/v1/%1b[2J%0aHost")
    assert served.last().endpoint == "/v1/\\x1b[2J\\nHost"
    assert "\\x1b" in served.chat(model="\x1b[2J").error["message"]
    served.ask("/v1/chat/completions", b"{")
    assert (served.last().state, served.last().status) == ("failed", 400)


def test_it_ends_in_mid_stream_and_frees_its_port(forked_children: None, tmp_path: Path) -> None:
    with scripted_server(tmp_path, SCRIPT) as served:
        port = served.port
        connection = served.connect()
        connection.request(
            "POST",
            "/v1/chat/completions",
            '{"messages": [{"role": "user", "content": "long"}], "stream": true}',
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        assert response.readline().startswith(b"data: ")
        served.server.stop(PATIENCE_S)
        assert served.server.state is ServerState.STOPPED
        rest = response.read()
        assert b'"error"' in rest
        assert b"turned off" in rest
        connection.close()
        with socket.socket() as again:  # without SO_REUSEADDR on Windows alone
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", port))
        assert served.server.open_count == 0
        assert served.last().state == "failed"
        served.server.start(ServerOptions(port=0))
        assert served.server.wait(PATIENCE_S) is ServerState.RUNNING
        assert served.chat().status == 200


def test_an_engine_that_crashes_is_told_and_answers_the_next_one(
    forked_children: None, tmp_path: Path
) -> None:
    tokens = [{"text": "a", "ms": 0}, {"exit": 3}]
    replies = [{"match": "die", "tokens": tokens}, *SCRIPT["replies"]]
    with scripted_server(tmp_path, {"load": {"ms": 1}, "replies": replies}) as served:
        assert served.chat("die").status == 500
        assert served.last().sentence
        answer = served.chat()
        assert answer.json["choices"][0]["message"]["content"] == "Hello"


def test_a_port_that_is_taken_and_an_open_door_are_refused_in_words(
    forked_children: None, tmp_path: Path
) -> None:
    talk = ScriptedTalk(tmp_path)
    engine = talk.engine(SCRIPT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = Server(engine, ServerOptions(port=taken.getsockname()[1]))
        server.start()
        assert server.wait(PATIENCE_S) is ServerState.FAILED
        assert "in use" in server.sentence
    server.start(ServerOptions(host="0.0.0.0", port=0))
    assert server.wait(PATIENCE_S) is ServerState.FAILED
    assert "needs a key" in server.sentence
    server.stop()
    talk.close()


@pytest.mark.parametrize("key", ["short", "with space", "ключ-ключ"])
def test_a_key_that_cannot_be_sent_is_refused(key: str) -> None:
    from app.refusal import Refusal

    with pytest.raises(Refusal, match="key must have"):
        ServerOptions(key=key).check()
