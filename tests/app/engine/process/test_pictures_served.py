"""A picture's whole way through the real engine's process: load, count, show, look, reply, stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import CHATML
from scripted_talk import PATIENCE_S, ScriptedTalk
from small_networks import small_network
from small_projectors import png, small_projector

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.protocol.beam_messages import SearchBeams
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.inside_messages import LookInside
from app.engine.protocol.loading_messages import Loaded, LoadOptions
from app.engine.protocol.media_messages import SHOWN, Media
from app.engine.protocol.messages import (
    CountPrompt,
    Failed,
    Finished,
    Generate,
    Progress,
    PromptCount,
    Stop,
    Stopped,
    Summary,
)
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    IdsPrompt,
    PromptShown,
    ReadPrompt,
)

pytestmark = pytest.mark.weights
SMALL = LoadOptions(n_ctx=512, n_ubatch=64, n_slots=2, n_threads=1)


@pytest.fixture
def talk(forked_engines: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def _asked(*pictures: bytes) -> ChatPrompt:
    media = [Media(f"p{number}", "image", data, 5) for number, data in enumerate(pictures)]
    message = ChatMessage("user", "Look, what is it?", message_id="m1", media=media)
    return ChatPrompt([message], template=CHATML)


def _result(engine: Engine, command: Any) -> Any:
    ending = engine.wait_for(engine.request(command), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    return ending.result


def _refused(engine: Engine, command: Any) -> str:
    ending = engine.wait_for(engine.request(command), PATIENCE_S)
    assert isinstance(ending, Failed), ending
    assert ending.kind != "internal", ending.evidence
    return ending.sentence


def test_a_picture_goes_all_the_way(talk: ScriptedTalk, tmp_path: Path) -> None:
    text, eyes = tmp_path / "text.gguf", tmp_path / "eyes.gguf"
    small_network(text, "grouped")
    small_projector(eyes, "gemma3")
    engine = talk.over(child_command("engine"))
    ending = engine.wait_for(engine.load(text, SMALL, projector=str(eyes)), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Loaded)
    assert ending.result.projector is not None
    assert (ending.result.projector.kind, ending.result.projector.why) == ("gemma3", "")

    red = png(40, 40, 1)
    count = _result(engine, CountPrompt(0, _asked(red)))
    shown = _result(engine, ReadPrompt(0, _asked(red)))
    assert isinstance(count, PromptCount)
    assert isinstance(shown, PromptShown)
    ids = list(shown.token_ids.numbers())
    assert count.n_tokens == len(ids)
    assert count.media == shown.media
    (span,) = shown.media
    assert (span.count, span.media_id, span.columns, span.rows) == (4, "p0", 2, 2)
    assert f"Look,{SHOWN} what" in shown.rendered
    ends = shown.offsets.numbers()
    assert ends[span.start] == ends[span.start + span.count]  # its cells spell nothing

    summary = _result(engine, Generate(0, _asked(red), max_tokens=3, conversation="a"))
    assert isinstance(summary, Summary)
    assert summary.prompt_tokens == len(ids)
    assert "seeing" in [part.kind for part in summary.timeline]
    seeing = [e for e in talk.of(Progress) if e.phase == "seeing"]
    assert [(e.done, e.total) for e in seeing] == [(1, 1)]
    again = _result(engine, Generate(0, _asked(red), max_tokens=3, conversation="a"))
    assert again.reused >= span.start + span.count

    for command, words in (
        (Generate(0, IdsPrompt(ids)), "which only replies can process"),
        (LookInside(0, ids, ["lens"]), "which only replies can process"),
        (SearchBeams(0, ids, width=2, length=3), "which only replies can process"),
        (Generate(0, _asked(red), cuts=[Cut("head", 0, 0)]), "can't be cut"),
        (Generate(0, _asked(b"no picture")), "isn't known"),
        (CountPrompt(0, _asked(b"")), "is empty"),
        (ReadPrompt(0, _asked(png(4, 4, claims=(60000, 60000)))), "60,000 × 60,000"),
    ):
        assert words in _refused(engine, command)
    request_id = engine.generate(Generate(0, _asked(png(40, 40, 2)), conversation="b"))
    engine.request(Stop(request_id))
    assert isinstance(engine.wait_for(request_id, PATIENCE_S), Stopped | Finished)
    assert _result(engine, Generate(0, _asked(png(40, 40, 2)), max_tokens=2)).prompt_tokens == len(
        ids
    )
