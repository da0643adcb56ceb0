"""The scripted engine plays pictures: an offer, cells in the prompt, time, and why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_talk import PATIENCE_S, ScriptedTalk

from app.engine.client.engine import Engine
from app.engine.protocol.cache_messages import CacheMap, ReadCache
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.media_messages import SHOWN, Media, MediaSpan, ProjectorOffer
from app.engine.protocol.messages import (
    CountPrompt,
    Failed,
    Finished,
    Generate,
    PromptCount,
    Summary,
)
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, PromptShown, ReadPrompt

RED, BLUE = b"a red picture", b"a blue picture"


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def _asked(*pictures: bytes, text: str = "Look: what is it?") -> ChatPrompt:
    media = [Media(f"p{number}", "image", data, 5) for number, data in enumerate(pictures)]
    return ChatPrompt([ChatMessage("user", text, message_id="m1", media=media)])


def _result(engine: Engine, command: Any) -> Any:
    ending = engine.wait_for(engine.request(command), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    return ending.result


def test_a_projector_is_offered_and_pictures_fill_cells_that_are_known_again(
    talk: ScriptedTalk,
) -> None:
    engine = talk.engine({"replies": [{"text": "A cat."}], "projector": {"tokens": 4}})
    ending = engine.wait_for(engine.load("weights.gguf", projector="eyes.gguf"), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Loaded)
    offer = ending.result.projector
    assert offer == ProjectorOffer("eyes.gguf", "scripted", True, False, 224, 4, 1_000_000)

    count = _result(engine, CountPrompt(0, _asked(RED, BLUE)))
    assert isinstance(count, PromptCount)
    bare = _result(engine, CountPrompt(0, _asked()))
    assert count.n_tokens == bare.n_tokens + 8

    shown = _result(engine, ReadPrompt(0, _asked(RED, BLUE)))
    assert isinstance(shown, PromptShown)
    assert shown.rendered.count(SHOWN) == 2
    assert [(s.count, s.media_id, s.columns, s.rows) for s in shown.media] == [
        (4, "p0", 2, 2),
        (4, "p1", 2, 2),
    ]
    ids = shown.token_ids.numbers()
    first, second = (ids[s.start : s.start + s.count] for s in shown.media)
    assert max(*first, *second) < -1
    assert len({*first, *second}) == 8
    assert shown.media == count.media

    summary = _result(engine, Generate(0, _asked(RED), conversation="a", reply_id="m2"))
    assert isinstance(summary, Summary)
    assert "seeing" in [span.kind for span in summary.timeline]
    held = _result(engine, ReadCache(0))
    assert isinstance(held, CacheMap)
    assert held.slots[0].media == [MediaSpan(shown.media[0].start, 4, "p0", 2, 2)]
    again = _result(engine, Generate(0, _asked(RED), conversation="a", reply_id="m3"))
    assert again.reused == again.prompt_tokens - 1
    other = _result(engine, Generate(0, _asked(BLUE), conversation="a", reply_id="m4"))
    assert other.reused == shown.media[0].start


def test_what_nobody_can_see_is_refused_in_words(talk: ScriptedTalk) -> None:
    def asked(loading: dict[str, Any], kind: Any, **script: Any) -> str:
        engine = talk.engine({"replies": [{"text": "A cat."}], **script})
        engine.wait_for(engine.load("weights.gguf", **loading), PATIENCE_S)
        prompt = ChatPrompt([ChatMessage("user", "Look", media=[Media("p", kind, RED)])])
        said = set()
        for command in (Generate(0, prompt), CountPrompt(0, prompt), ReadPrompt(0, prompt)):
            ending = engine.wait_for(engine.request(command), PATIENCE_S)
            assert isinstance(ending, Failed)
            assert ending.kind == "no_projector"
            said.add(ending.sentence)
        (sentence,) = said
        return sentence

    assert "no projector is loaded" in asked({}, "image")
    eyes = {"projector": "eyes.gguf"}
    broken = asked(eyes, "image", projector={"why": "It is not a projector."})
    assert "It is not a projector." in broken
    assert "can't hear audio" in asked(eyes, "audio")
