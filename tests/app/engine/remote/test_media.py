"""Pictures and sounds on their way to servers, and what those are known to take."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import scripted_servers as servers
from each import each
from remote_talk import CHAT, HI, Talk
from scripted_servers import DONE, Reply, Stream, delta, finish, sse

from app.engine.protocol.media_messages import Media
from app.engine.protocol.messages import CountPrompt
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, ReadPrompt

PNG, WAV, FLAC = b"\x89PNG\r\n\x1a\n..", b"RIFF\x04\0\0\0WAVEfmt ", b"fLaC...."
SEEN = Stream(sse(delta("A cat."), finish("stop"), DONE))
Talks = Callable[..., Talk]
TAKES = "use a model that takes them"


def look(content: str, *media: Media) -> ChatPrompt:
    return ChatPrompt([ChatMessage("user", content, media=[*media])])


PICTURE = look("Look: what?", Media("p", "image", PNG, 5))
SOUND = look("Hear", Media("s", "audio", WAV, 0))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def image(data: bytes = PNG) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(data)}"}}


def with_vision(sees: bool, hears: bool = False) -> dict[str, Any]:
    answers = servers.llama_server()
    answers["/props"]["modalities"] = {"vision": sees, "audio": hears}
    return answers


def rows(**fields: Any) -> dict[str, Any]:
    return {"/v1/models": servers.models({"id": "m", **fields})}


def lm_studio(kind: str) -> dict[str, Any]:
    answers = servers.lm_studio()
    for row in answers["/api/v0/models"]["data"]:
        if row["id"] == "m":
            row["type"] = kind
    return answers


def ollama(*can: str) -> dict[str, Any]:
    return {**servers.ollama(), "/api/show": {"capabilities": ["completion", *can]}}


def test_a_picture_goes_as_a_data_url_where_it_stood(talk: Talks) -> None:
    one = talk({**with_vision(True, True), CHAT: SEEN})
    assert one.reply(PICTURE).text == "A cat."
    parts = [{"type": "text", "text": "Look:"}, image(), {"type": "text", "text": " what?"}]
    assert one.body["messages"] == [{"role": "user", "content": parts}]
    one.reply(SOUND)
    sound = {"type": "input_audio", "input_audio": {"data": b64(WAV), "format": "wav"}}
    parts = [sound, {"type": "text", "text": "Hear"}]
    assert one.body["messages"] == [{"role": "user", "content": parts}]


def test_two_turns_of_one_role_stay_one(talk: Talks) -> None:
    one = talk({**with_vision(True), CHAT: SEEN})
    said = [ChatMessage("user", "First"), *PICTURE.messages, ChatMessage("user", "Last")]
    one.reply(ChatPrompt(said))
    (message,) = one.body["messages"]
    assert [part.get("text") for part in message["content"]] == [
        *("First", "Look:", None, " what?", "Last"),
    ]


def test_broken_control_texts_move_no_picture(talk: Talks) -> None:
    answers = {**rows(owned_by="me"), CHAT: SEEN}
    one = talk(answers)
    text = "<|im_end|> a "
    one.reply(look(f"{text}<|im_end|>", Media("p", "image", PNG, len(text))))
    (message,) = one.body["messages"]
    first, picture, last = message["content"]
    assert picture == image()
    assert first["text"] == "<\u200b|im_end|> a "
    assert last["text"] == "<\u200b|im_end|>"


@each(
    ("answers", "sees", "hears"),
    [
        (with_vision(True, True), True, True),
        (with_vision(True), True, False),
        (with_vision(False), False, False),
        (ollama("vision"), True, False),
        (ollama(), False, False),
        (servers.ollama(), True, False),  # it doesn't say: tried
        (lm_studio("vlm"), True, False),
        (lm_studio("llm"), False, False),
        (servers.vllm(), True, True),
        (servers.plain(), True, True),
        (rows(architecture={"input_modalities": ["text", "image"]}), True, False),
        (rows(architecture={"input_modalities": ["text"]}), False, False),
        (rows(capabilities={"vision": False}), False, True),
        (rows(capabilities=["completion", "multimodal"], owned_by="vllm"), True, True),
        (rows(architecture={"input_modalities": 5}, capabilities=7), True, True),
    ],
)
def test_what_a_server_says_its_model_takes(
    answers: dict[str, Any], sees: bool, hears: bool, talk: Talks
) -> None:
    one = talk({**answers, CHAT: SEEN}, is_loaded=False)
    offer = one.load()
    assert (offer.can("images"), offer.can("audio")) == (sees, hears)
    if not sees:
        failed = one.failed(PICTURE)
        assert (failed.kind, failed.sentence) == ("unsupported", offer.why_not("images"))
        assert "takes no pictures" in failed.sentence
        assert not one.server.asked(CHAT)


@each(
    ("status", "said", "way"),
    [
        (400, "m is not a multimodal model", TAKES),
        (500, "image input is not supported - hint: you may need to provide the mmproj", TAKES),
        (501, "This server does not support images", TAKES),
        (500, "[type_error.302] type must be string, but is array", TAKES),
        (400, "json: cannot unmarshal array into Go struct field of type string", TAKES),
        (422, "Input should be a valid string", TAKES),
        (415, "Unsupported", TAKES),
        (400, "", TAKES),
        (413, "Payload Too Large", "remove some, or attach smaller ones"),
        (429, "Too many images", "Try again later"),
        (400, "temperature must be at most 2", "Change the settings it names"),
    ],
)
def test_what_nobody_told_is_tried_and_the_refusal_is_said(
    status: int, said: str, way: str, talk: Talks
) -> None:
    body = msgspec.json.encode({"error": {"message": said}})
    one = talk({**servers.plain(), CHAT: Reply(status, body)})
    failed = one.failed(PICTURE)
    assert said in failed.sentence
    assert way in failed.sentence
    assert "takes them" not in one.failed(HI).sentence


def test_what_no_server_takes_is_said_before(talk: Talks) -> None:
    one = talk({**servers.plain(), CHAT: SEEN})
    assert "WAV or MP3" in one.failed(look("", Media("s", "audio", FLAC, 0))).sentence
    assert "can't be read" in one.failed(look("", Media("s", "image", FLAC, 0))).sentence


@pytest.mark.parametrize("command", [CountPrompt(0, PICTURE), ReadPrompt(0, PICTURE)])
def test_how_many_tokens_a_picture_takes_no_server_tells(talk: Talks, command: Any) -> None:
    assert "what it makes of pictures" in talk(with_vision(True)).answer(command)
