"""Who may ask, how much, and what becomes of clients that go, hang, or flood."""

from __future__ import annotations

import dataclasses
import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import PATIENCE_S, SCRIPT, Served, scripted_server

from app.engine.protocol.messages import Finished, Stopped
from app.server.asking import check_model
from app.server.fields import Fields
from app.server.options import ANY_NAME, Limits, ServerOptions

TOO_LONG = "context_length_exceeded"
KEY = "a-key-of-ours-0123"
LIMITS = Limits(
    body_bytes=4096,
    header_bytes=2048,
    connections=8,
    waiting=1,
    header_s=0.3,
    body_s=0.3,
    send_s=0.3,
    ping_s=0.05,
)
TIGHT = {**SCRIPT, "load": {"ms": 1, "loaded": {"n_slots": 1}}}


@pytest.fixture(scope="module")
def tight(forked_source: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with narrow limits, a key, and one page that may use it."""
    from forked import fork_from

    options = ServerOptions(
        port=0,
        key=KEY,
        origins=("http://localhost:3000",),
        names=("gpt-4o-mini",),
        limits=LIMITS,
        is_guest=True,
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        fork_from(forked_source, monkeypatch, "scripted", "templates")
        with scripted_server(tmp_path_factory.mktemp("tight"), TIGHT, options) as found:
            yield found


def _keyed(**more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {KEY}", **more}


def _chat(served: Served, text: str = "Hi", **more: str) -> Any:
    body = {"messages": [{"role": "user", "content": text}]}
    return served.ask("/v1/chat/completions", body, headers=_keyed(**more))


def _raw(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), PATIENCE_S)


def _stream(served: Served, text: str = "long") -> socket.socket:
    """A client that has asked for a long answer, and has read nothing of it."""
    body = json.dumps({"messages": [{"role": "user", "content": text}], "stream": True}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = _raw(served)
    connection.sendall(head.encode() + body)
    return connection


def _until_closed(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    connection.close()
    return found


# --- who ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong-key-0123"},
        {"Authorization": f"Basic {KEY}"},
        {"x-api-key": KEY + "x"},
        {"Authorization": "Bearer \xff\xfe"},
    ],
)
def test_without_the_key_nobody_is_answered(tight: Served, headers: dict[str, str]) -> None:
    answer = tight.ask("/v1/models", headers=headers)
    assert (answer.status, answer.error["type"]) == (401, "authentication_error")


def test_the_model_has_the_names_that_programs_have_built_in(tight: Served) -> None:
    listed = [each["id"] for each in tight.ask("/v1/models", headers=_keyed()).json["data"]]
    assert listed == ["weights", "gpt-4o-mini"]
    body = {"messages": [{"role": "user", "content": "Hi"}], "model": "gpt-4o-mini"}
    answer = tight.ask("/v1/chat/completions", body, headers=_keyed())
    assert (answer.status, answer.json["model"]) == (200, "weights")
    body["model"] = "gpt-4o"
    assert tight.ask("/v1/chat/completions", body, headers=_keyed()).status == 404


def test_any_name_is_taken_where_that_is_wanted(tight: Served) -> None:
    loaded = tight.engine.loaded
    assert check_model(Fields({"model": "whatever"}), loaded, [ANY_NAME]) is loaded


def test_either_library_sends_the_key(tight: Served) -> None:
    assert tight.ask("/v1/models", headers=_keyed()).status == 200
    assert tight.ask("/v1/models", headers={"x-api-key": KEY}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost@evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost:3000", "Host": "evil.example"},
    ],
)
def test_pages_and_other_names_are_refused_even_with_the_key(
    tight: Served, headers: dict[str, str]
) -> None:
    answer = tight.ask("/v1/models", headers=_keyed(**headers))
    assert (answer.status, answer.error["type"]) == (403, "permission_error")
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_that_was_allowed_is_told_so_by_cors(tight: Served) -> None:
    origin = {"Origin": "http://localhost:3000"}
    answer = tight.ask("/v1/models", headers=_keyed(**origin))
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == origin["Origin"]
    wanted = "authorization, x-stainless-lang"
    asked = {**origin, "Access-Control-Request-Headers": wanted}
    flight = tight.ask("/v1/chat/completions", method="OPTIONS", headers=asked)
    assert flight.status == 204
    assert flight.headers["access-control-allow-headers"] == wanted
    other = {**asked, "Origin": "http://evil.example"}
    assert tight.ask("/v1/models", method="OPTIONS", headers=other).status == 403


# --- how much ----------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_and_read_to_its_end(served: Served) -> None:
    """Not with the narrow limits: on a busy machine it takes longer to send than they allow."""
    large = b'{"a": "' + b"x" * served.server.options.limits.body_bytes + b'"}'
    answer = served.ask("/v1/chat/completions", large)
    assert answer.status == 413
    assert answer.error["message"].startswith("A request may have at most 33")


def test_a_body_that_is_no_json_is_refused(tight: Served) -> None:
    for body in (b"", b"{", b"[1]", b"\xff", b'{"a": NaN}', b"[" * 2000):
        answer = tight.ask("/v1/chat/completions", body, headers=_keyed())
        assert answer.status == 400, body[:20]
    form = _keyed(**{"Content-Type": "text/plain"})
    assert tight.ask("/v1/chat/completions", b"{}", headers=form).status == 415
    assert tight.ask("/v1/nothing", b"{}", headers=_keyed()).status == 404
    assert tight.ask("/v1/chat/completions", headers=_keyed()).status == 405


def test_a_head_that_is_too_long_or_never_ends_is_cut_off(tight: Served) -> None:
    connection = _raw(tight)
    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
    assert b" 400 " in _until_closed(connection)
    connection = _raw(tight)
    connection.sendall(b"GET / HTTP/1.1\r\n")
    assert _until_closed(connection) == b""
    assert _until_closed(_raw(tight)) == b""


def test_a_body_that_does_not_come_is_not_waited_for(tight: Served) -> None:
    connection = _raw(tight)
    head = f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: {KEY}\r\n"
    connection.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
    answer = connection.recv(65536)
    assert b" 408 " in answer
    connection.close()


HI = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/chat/completions", {"messages": [{**HI, "content": "long " * 100_000}]}, TOO_LONG),
        ("/v1/completions", {"prompt": [1] * 5_000}, TOO_LONG),
        ("/v1/embeddings", {"input": "long " * 100_000}, TOO_LONG),
        ("/v1/embeddings", {"input": ["a", [1] * 5_000]}, TOO_LONG),
        ("/tokenize", {"content": "a" * 500_001}, None),
        ("/detokenize", {"tokens": [1] * 500_001}, None),
        ("/v1/chat/completions", {"messages": [{**HI, "content": ["a"] * 2_000}]}, None),
        ("/v1/messages", {"messages": [{**HI, "content": [{}] * 2_000}], "max_tokens": 1}, None),
        ("/v1/chat/completions", {"messages": [HI], "logit_bias": [[1, 1]] * 9_000}, None),
    ],
)
def test_what_is_too_much_is_refused_before_the_engine_hears_of_it(
    served: Served, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, code: str | None
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(served.engine, "request", lambda *command: asked.append(command))
    answer = served.ask(path, body)
    assert answer.status == 400
    assert answer.error.get("code") == code
    assert not asked


def test_beside_a_window_its_requests_are_guests(tight: Served, served: Served) -> None:
    assert _chat(tight).status == 200
    assert served.chat().status == 200
    assert (tight.generates()[-1].is_guest, served.generates()[-1].is_guest) == (True, False)


def test_more_requests_than_can_wait_are_asked_to_come_again(tight: Served) -> None:
    waiting = [_stream(tight) for _ in range(2)]  # one has the slot, one waits
    tight.wait_until(lambda: tight.server.open_count == 2)
    answer = _chat(tight)
    assert (answer.status, answer.error["type"]) == (429, "rate_limit_error")
    assert int(answer.headers["retry-after"]) > 0
    for connection in waiting:
        connection.close()
    _wait_until_free(tight)
    assert _chat(tight).status == 200


# --- clients that go, or read nothing ----------------------------------------------------------


def _wait_until_free(served: Served) -> None:
    served.wait_until(lambda: served.server.open_count == 0)


@pytest.mark.parametrize("how", ["closes", "resets"])
def test_a_client_that_goes_stops_its_reply_at_once(tight: Served, how: str) -> None:
    connection = _stream(tight)
    assert connection.recv(64)
    if how == "resets":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    _wait_until_free(tight)
    exchange = tight.last()
    assert exchange.state == "stopped"
    assert isinstance(exchange.replies[0].ending, Stopped)


@pytest.mark.soak
def test_one_that_waits_long_hears_that_its_reply_is_still_to_come(tight: Served) -> None:
    import anthropic
    import openai

    asked: Any = {"model": "default", "messages": [{"role": "user", "content": "late"}]}
    ours = f"{tight.server.address}/v1"
    with openai.OpenAI(base_url=ours, api_key=KEY, max_retries=0) as client:
        with client.chat.completions.create(**asked, stream=True) as stream:
            raw = list(stream.response.iter_lines())
        assert raw.index(": waiting") < len(raw) - 1 - raw[::-1].index("data: [DONE]")
        chunks = list(client.chat.completions.create(**asked, stream=True))
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == "At last."
    with (
        anthropic.Anthropic(base_url=tight.server.address, api_key=KEY, max_retries=0) as client,
        client.messages.stream(**asked, max_tokens=9) as events,
    ):
        assert events.get_final_text() == "At last."


def test_one_that_goes_while_it_waits_leaves_the_queue(tight: Served) -> None:
    first = _stream(tight)
    assert first.recv(64)
    second = _stream(tight)
    tight.wait_until(lambda: tight.server.open_count == 2)
    second.close()
    tight.wait_until(lambda: tight.server.open_count == 1)
    first.close()
    _wait_until_free(tight)


FLOOD = {
    "load": {"ms": 1},
    "replies": [{"tokens": [{"text": "x" * 60_000, "ms": 0.2, "repeat": 4000}]}],
}


def test_one_that_reads_nothing_is_dropped_and_holds_nothing(
    forked_children: None, tmp_path: Path
) -> None:
    options = ServerOptions(port=0, key=KEY, limits=dataclasses.replace(LIMITS, behind=64))
    with scripted_server(tmp_path, FLOOD, options) as served:
        connection = _stream(served)
        served.wait_until(lambda: bool(served.exchanges) and served.server.open_count == 0)
        served.wait_until(lambda: served.exchanges[-1].seconds is not None)
        exchange = served.exchanges[-1]
        assert exchange.state == "stopped"
        (reply,) = exchange.replies
        assert not isinstance(reply.ending, Finished)
        assert reply.summary is not None
        assert reply.summary.generated < 4000
        assert len(_until_closed(connection)) < 60_000 * 4000
