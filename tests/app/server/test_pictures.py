"""Pictures and sounds in requests: by hand, by OpenAI's client and by Anthropic's."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from each import each
from forked import Source, fork_from
from serving import SCRIPT, Served, scripted_server

from app.engine.protocol.media_messages import Media
from app.engine.protocol.prompt_messages import ChatMessage

PNG = b"\x89PNG\r\n\x1a\n" + b"a picture"
WAV = b"RIFF\x04\0\0\0WAVEfmt "
SCRIPTED = {**SCRIPT, "projector": {"tokens": 9, "audio": True}}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


URL = f"data:image/png;base64,{b64(PNG)}"
PICTURE = {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}
SOUND = {"type": "input_audio", "input_audio": {"data": b64(WAV), "format": "wav"}}
BLOCK = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": b64(PNG)},
}


@pytest.fixture(scope="module")
def seeing(
    forked_source: Source | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        fork_from(forked_source, monkeypatch, "scripted", "templates")
        folder = tmp_path_factory.mktemp("seeing")
        with scripted_server(folder, SCRIPTED, projector="eyes.gguf") as found:
            yield found


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def messages(served: Served) -> list[ChatMessage]:
    found: list[ChatMessage] = served.generates()[-1].prompt.messages
    return found


def test_parts_stand_where_they_stood(seeing: Served) -> None:
    parts = [text("Hi"), text("there"), PICTURE, text("and"), SOUND]
    answer = seeing.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": parts}]})
    assert answer.status == 200, answer.body
    seeing.last()
    (said,) = messages(seeing)
    assert said.content == "Hi\nthereand"
    assert said.media == [
        Media("file-1", "image", PNG, len("Hi\nthere")),
        Media("file-2", "audio", WAV, len("Hi\nthereand")),
    ]
    bare = seeing.chat("Hi\nthereand").json["usage"]["prompt_tokens"]
    assert answer.json["usage"]["prompt_tokens"] == bare + 2 * 9
    (model,) = seeing.ask("/v1/models").json["data"]
    assert model["architecture"]["input_modalities"] == ["text", "image", "audio"]


def test_openais_own_client_sends_one(seeing: Served) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{seeing.server.address}/v1", api_key="any")
    with client:
        reply = client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": [text("Hi"), PICTURE]}],  # type: ignore[list-item]
        )
        assert reply.choices[0].message.content == "Hello"
        far = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(
                model="default",
                messages=[{"role": "user", "content": [far]}],  # type: ignore[list-item]
            )
    assert caught.value.param == "messages[0].content[0].image_url.url"
    assert "aren't fetched" in caught.value.message
    seeing.n_asked += 2
    assert [each.data for each in messages(seeing)[0].media] == [PNG]


def test_anthropics_own_client_sends_one_and_a_tool_answers_with_one(seeing: Served) -> None:
    import anthropic

    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "is_error": True}
    client = anthropic.Anthropic(base_url=seeing.server.address, api_key="any")
    said: list[Any] = [
        {"role": "user", "content": [text("Hi"), BLOCK]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{**result, "content": [text("ab"), BLOCK]}, text("Hi")]},
    ]
    with client:
        reply = client.messages.create(model="default", max_tokens=9, messages=said)
        count = client.messages.count_tokens(model="default", messages=said[:1])
        bare = client.messages.count_tokens(
            model="default", messages=[{"role": "user", "content": "Hi"}]
        )
        source = {"type": "url", "url": "https://example.org/a.png"}
        far: Any = [{"role": "user", "content": [{"type": "image", "source": source}]}]
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(model="default", max_tokens=9, messages=far)
    assert "must be in the request" in str(caught.value)
    assert reply.content[0].text == "Hello"  # type: ignore[union-attr]
    assert count.input_tokens == bare.input_tokens + 9
    seeing.n_asked += 4
    first, _, answer, last = messages(seeing)
    assert (first.content, [each.at for each in first.media]) == ("Hi", [2])
    assert (answer.content, [each.at for each in answer.media]) == ("Error: ab", [9])
    assert (last.content, last.media) == ("Hi", [])


@each(
    ("part", "param", "words"),
    [
        ({"image_url": {"url": "http://127.0.0.1/a.png"}}, "image_url.url", "aren't fetched"),
        ({"image_url": {"url": "file:///etc/passwd"}}, "image_url.url", "aren't fetched"),
        ({"image_url": "data:image/png,abc"}, "image_url", "isn't base64"),
        ({"image_url": {"url": "data:image/png;base64,@@"}}, "image_url.url", "isn't base64"),
        ({"image_url": {"url": f"data:x;base64,{b64(WAV)}"}}, "image_url.url", "isn't a picture"),
        ({"image_url": {"url": f"data:x;base64,{b64(b'<svg')}"}}, "image_url.url", "PNG, JPEG"),
        ({"image_url": {"uri": URL}}, "image_url.url", "aren't fetched"),
        ({"image_url": {"url": URL, "size": 3}}, "image_url.size", "isn't supported"),
        ({}, "image_url", "is missing"),
    ],
)
def test_what_is_no_picture_is_refused_with_its_place(
    part: dict[str, Any], param: str, words: str, seeing: Served
) -> None:
    content = [text("Hi"), {"type": "image_url", **part}]
    answer = seeing.ask(
        "/v1/chat/completions", {"messages": [{"role": "user", "content": content}]}
    )
    assert (answer.status, answer.error["param"]) == (400, f"messages[0].content[1].{param}")
    assert words in answer.error["message"]


def test_how_much_and_whose(seeing: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("app.server.media_reading.MAX_SENT_BYTES", 2 * len(PNG))
        much = [{"role": "user", "content": [PICTURE] * 3}]
        error = seeing.ask("/v1/chat/completions", {"messages": much}).error
        assert (error["param"], error["code"]) == ("messages[0].content[2].image_url.url", None)
        assert "together" in error["message"]
    many = [{"role": "user", "content": [PICTURE] * 65}]
    assert "at most 64" in seeing.ask("/v1/chat/completions", {"messages": many}).error["message"]
    own = [{"role": "system", "content": [PICTURE]}]
    sentence = seeing.ask("/v1/chat/completions", {"messages": own}).error["message"]
    assert "only be in user messages" in sentence
    video = [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "x"}}]}]
    sentence = seeing.ask("/v1/chat/completions", {"messages": video}).error["message"]
    assert "'video_url' isn't supported" in sentence


def test_a_model_without_a_projector_says_what_would_do(served: Served) -> None:
    for path, part in (("/v1/chat/completions", PICTURE), ("/v1/messages", BLOCK)):
        body = {"messages": [{"role": "user", "content": [part]}], "max_tokens": 9}
        answer = served.ask(path, body)
        assert answer.status == 400
        assert "Choose its projector file (mmproj)" in answer.error["message"]
    (model,) = served.ask("/v1/models").json["data"]
    assert model["architecture"]["input_modalities"] == ["text"]
