"""The scripted engine keeps the protocol: counts, context, stop strings, parts, reuse."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from scripted_talk import PATIENCE_S, ScriptedTalk, ask

from app.engine.client.engine import Engine
from app.engine.process.scripted.script import (
    Script,
    ScriptError,
    ScriptReply,
    ScriptVocabulary,
    read_script,
    split_words,
)
from app.engine.protocol.loading_messages import LoadOptions
from app.engine.protocol.messages import (
    CountPrompt,
    Failed,
    Finished,
    Generate,
    Progress,
    PromptCount,
    PromptScores,
    ReadVocabulary,
    Summary,
    TextFlushed,
    TextTakenBack,
    TokenArrived,
    Tokenize,
    Tokens,
    VocabularyTable,
)
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, IdsPrompt, TextPrompt
from app.engine.protocol.tool_messages import Tool, ToolCall, ToolCalled

ROOT = Path(__file__).resolve().parents[5]


@pytest.fixture
def talk(forked_children: None, tmp_path: Path) -> Iterator[ScriptedTalk]:
    talk = ScriptedTalk(tmp_path)
    yield talk
    talk.close()


def _script(*replies: dict[str, Any], **load: Any) -> dict[str, Any]:
    return {"load": {"ms": 1, **load}, "replies": list(replies)}


def _summary(engine: Engine, request: Generate) -> Summary:
    ending = engine.wait_for(engine.generate(request), PATIENCE_S)
    assert isinstance(ending, Finished), ending
    assert isinstance(ending.result, Summary)
    return ending.result


# --- calls of tools ---------------------------------------------------------------------------

CLOCK = Tool("clock", "The time in a city.", '{"type": "object"}')
CALLING = {
    "text": "One moment.",
    "calls": [
        {"name": "clock", "arguments": {"city": "Tokyo"}},
        {"name": "clock", "arguments": "not json", "id": "mine"},
    ],
}


def _asking(*messages: ChatMessage, choice: str = "auto", **fields: Any) -> Generate:
    prompt = ChatPrompt(list(messages), tools=[CLOCK], tool_choice=choice)
    return Generate(0, prompt, **fields)


def test_a_script_plays_calls_where_tools_are_offered(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script(CALLING))
    asked = ChatMessage("user", "What time is it?")
    summary = _summary(engine, _asking(asked))
    assert (summary.text, summary.stop_reason) == ("One moment.", "tool_calls")
    calls = summary.tool_calls
    assert [call.name for call in calls] == ["clock", "clock"]
    assert json.loads(calls[0].arguments) == {"city": "Tokyo"}
    assert calls[0].id
    assert (calls[1].id, calls[1].arguments) == ("mine", "not json")
    called = [event for event in talk.events if isinstance(event, ToolCalled)]
    assert [(event.index, event.call) for event in called] == list(enumerate(calls))
    arrived = [e for e in talk.events if isinstance(e, TokenArrived | TextFlushed)]
    assert "".join(e.text for e in arrived if e.part == "content") == summary.text
    written = "".join(e.text for e in arrived if e.part == "call")
    assert written.count("<tool_call>") == written.count("</tool_call>") == 2

    for request in (_asking(asked, choice="none"), ask("What time is it?")):
        summary = _summary(engine, request)
        assert (summary.tool_calls, summary.stop_reason) == ([], "end_token")


def test_what_a_tool_said_chooses_the_next_reply_and_stands_in_its_prompt(
    talk: ScriptedTalk,
) -> None:
    night = {"match": "3 am", "text": "It is night there."}
    engine = talk.loaded_engine(_script({"match": "time", **CALLING}, night))
    asked = ChatMessage("user", "What time is it?")
    call = ToolCall("c1", "clock", "{}")
    said = ChatMessage("assistant", "One moment.", tool_calls=[call])
    answer = ChatMessage("tool", "3 am", tool_call_id="c1", tool_name="clock")
    assert _summary(engine, _asking(asked)).tool_calls
    summary = _summary(engine, _asking(asked, said, answer))
    assert (summary.text, summary.tool_calls) == ("It is night there.", [])
    written = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
    assert written in summary.rendered_prompt
    assert "clock: The time in a city." in summary.rendered_prompt


def test_a_call_that_is_cut_off_is_text(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"calls": [{"name": "clock"}]}))
    summary = _summary(engine, _asking(ChatMessage("user", "Now?"), max_tokens=3))
    assert (summary.tool_calls, summary.stop_reason) == ([], "max_tokens")
    assert summary.text.startswith("<tool_call")


# --- replies ----------------------------------------------------------------------------------


def test_replies_come_in_order_and_go_round_and_a_match_goes_first(talk: ScriptedTalk) -> None:
    replies = [{"text": "one"}, {"text": "two"}, {"match": "sun", "text": "bright"}]
    engine = talk.loaded_engine(_script(*replies))
    said = [_summary(engine, ask(text)).text for text in ("a", "the sun", "b", "c")]
    assert said == ["one", "bright", "two", "one"]


def test_without_loop_the_last_reply_is_followed_by_nothing(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine({**_script({"text": "once"}), "loop": False})
    assert [_summary(engine, ask()).text for _ in range(2)] == ["once", ""]


def test_half_characters_wait_and_the_joined_text_is_the_summarys(talk: ScriptedTalk) -> None:
    tokens = [{"hex": "f0"}, {"hex": "9f99"}, {"hex": "82"}, {"text": "!"}]
    engine = talk.loaded_engine(_script({"tokens": tokens}))
    summary = _summary(engine, ask())
    assert [event.text for event in talk.of(TokenArrived)] == ["", "", "🙂", "!"]
    assert summary.text == "🙂!"


def test_parts_are_kept_apart_and_what_was_held_is_flushed(talk: ScriptedTalk) -> None:
    tokens = [{"text": "hm STO", "part": "reasoning"}, {"text": "yes"}, {"text": " STO"}]
    engine = talk.loaded_engine(_script({"tokens": tokens}))
    summary = _summary(engine, ask(stop=["STOP"]))
    assert (summary.reasoning, summary.text) == ("hm STO", "yes STO")
    assert [(event.part, event.text) for event in talk.of(TextFlushed)] == [("content", "STO")]
    talk.events.clear()
    summary = _summary(engine, ask(stop=["STOP"], stop_in_reasoning=True))
    assert (summary.reasoning, summary.text) == ("hm STO", "yes STO")
    flushed = [(event.part, event.text) for event in talk.of(TextFlushed)]
    assert flushed == [("reasoning", "STO"), ("content", "STO")]


def test_stop_strings_count_in_the_answer_or_in_both(talk: ScriptedTalk) -> None:
    """N08, as the real engine has it."""
    tokens = [{"text": "a STOP b", "part": "reasoning"}, {"text": "c STOP d"}]
    engine = talk.loaded_engine(_script({"tokens": tokens}))
    summary = _summary(engine, ask(stop=["STOP"]))
    assert (summary.reasoning, summary.text) == ("a STOP b", "c ")
    summary = _summary(engine, ask(stop=["STOP"], stop_in_reasoning=True))
    assert (summary.reasoning, summary.text, summary.stop_detail) == ("a ", "", "STOP")


def test_a_reply_that_is_cut_inside_a_character_goes_on_there(talk: ScriptedTalk) -> None:
    """N11, as the real engine has it."""
    smile = [{"hex": f"{byte:02x}"} for byte in "🙂".encode()]
    engine = talk.loaded_engine(_script({"tokens": smile[:2]}, {"tokens": smile[2:]}))
    first = _summary(engine, ask())
    assert (first.text, len(first.token_ids)) == ("", 2)
    cut = ChatMessage("assistant", "", token_ids=first.token_ids)
    user = ChatMessage("user", "Go")
    going_on = ChatPrompt([user, cut], continue_last=True)
    assert _summary(engine, Generate(0, going_on)).text == "🙂"
    later = _summary(engine, Generate(0, ChatPrompt([user, cut, user])))
    assert "\ufffd" not in later.rendered_prompt


def test_a_stop_string_ends_the_reply_and_is_never_shown(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"text": "alpha beta gamma delta"}))
    summary = _summary(engine, ask(stop=["beta gamma"]))
    assert (summary.text, summary.stop_reason) == ("alpha ", "stop_string")
    assert summary.stop_detail == "beta gamma"
    assert "".join(event.text for event in talk.of(TokenArrived)) == "alpha "


def test_numbers_come_from_the_script(talk: ScriptedTalk) -> None:
    table = [["red", 0.5], ["blue", 0.25]]
    tokens = [{"text": "blue", "probability": 0.25, "alternatives": table}, {"text": "sky"}]
    engine = talk.loaded_engine(_script({"tokens": tokens}))
    _summary(engine, ask(alternatives=8))
    first, second = (event.token for event in talk.of(TokenArrived))
    assert first.logprob == pytest.approx(math.log(0.25))
    assert first.rank == 2
    assert first.entropy == pytest.approx(1.5)
    ids = struct.unpack("<2i", first.alternative_ids.data)
    assert ids[1] == first.token_id
    assert second.alternative_ids.shape == [0]
    assert (second.logprob, second.rank) == (0.0, 1)


# --- context and counts -----------------------------------------------------------------------


def test_the_context_can_be_full(talk: ScriptedTalk) -> None:
    script = _script({"tokens": [{"text": "a", "repeat": 50}]}, loaded={"n_ctx": 20})
    engine = talk.loaded_engine(script)
    summary = _summary(engine, ask("a"))
    assert summary.stop_reason == "context_full"
    assert summary.context_used == summary.context_size == 20
    ending = engine.wait_for(engine.generate(ask("b" * 40)), PATIENCE_S)
    assert isinstance(ending, Failed)
    assert ending.kind == "prompt_too_long"
    assert "20" in ending.sentence


def test_maximum_deadline_and_seed(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"tokens": [{"text": "a", "ms": 5, "repeat": 5000}]}))
    assert _summary(engine, ask(max_tokens=3)).stop_reason == "max_tokens"
    assert _summary(engine, ask(deadline_s=0.05)).stop_reason == "deadline"
    assert _summary(engine, ask(max_tokens=1)).seed == 1


def test_prefill_is_told_in_chunks(talk: ScriptedTalk) -> None:
    prefill = {"tokens": 40, "ms": 8, "chunks": 4}
    engine = talk.loaded_engine(_script({"text": "x", "prefill": prefill}))
    summary = _summary(engine, ask())
    told = [(e.done, e.total) for e in talk.of(Progress) if e.phase == "prefill"]
    assert told == [(10, 40), (20, 40), (30, 40), (40, 40)]
    assert summary.prompt_tokens == 40


def test_the_next_turn_reuses_the_conversation(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"text": "one two"}))
    first = _summary(engine, ask("Hello", conversation="c"))
    messages = [
        ChatMessage("user", "Hello"),
        ChatMessage("assistant", first.text, token_ids=first.token_ids),
        ChatMessage("user", "More"),
    ]
    second = _summary(engine, Generate(0, ChatPrompt(messages), conversation="c"))
    assert second.reused == first.prompt_tokens + first.generated
    assert second.evaluated == second.prompt_tokens - second.reused
    fresh = Generate(0, ChatPrompt(messages), conversation="c", reuse_prefix=False)
    assert _summary(engine, fresh).reused == 0


def test_prompts_of_each_kind_are_counted(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"text": "Hello you"}))
    prompts = [TextPrompt("Hello you"), IdsPrompt([261, 262]), ask("Hello you").prompt]
    counts = []
    for prompt in prompts:
        ending = engine.wait_for(engine.request(CountPrompt(0, prompt)), PATIENCE_S)
        assert isinstance(ending, Finished)
        assert isinstance(ending.result, PromptCount)
        counts.append(ending.result.n_tokens)
    assert counts == [2, 2, 5]
    continued = ChatPrompt([ChatMessage("assistant", "Hello")], continue_last=True)
    assert _summary(engine, Generate(0, continued)).rendered_prompt == "<|assistant|>Hello"


def test_load_options_are_taken(talk: ScriptedTalk) -> None:
    engine = talk.engine(_script())
    options = LoadOptions(n_ctx=64, n_threads=3, n_gpu_layers=5, type_k="q8_0")
    engine.wait_for(engine.load("folder/some file.gguf", options), PATIENCE_S)
    loaded = engine.loaded
    assert loaded is not None
    assert (loaded.name, loaded.n_ctx, loaded.n_threads) == ("some file", 64, 3)
    assert (loaded.n_gpu_layers, loaded.type_k) == (5, "q8_0")


def test_the_vocabulary_names_every_piece(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"text": "Hello you 🙂"}))
    tokens = engine.wait_for(engine.request(Tokenize(0, "Hello you, 🙂")), PATIENCE_S)
    table = engine.wait_for(engine.request(ReadVocabulary(0)), PATIENCE_S)
    assert isinstance(tokens, Finished)
    assert isinstance(tokens.result, Tokens)
    assert isinstance(table, Finished)
    assert isinstance(table.result, VocabularyTable)
    pieces = Pieces(table.result)
    assert [pieces.piece(i) for i in tokens.result.token_ids] == tokens.result.pieces
    assert b"".join(tokens.result.pieces).decode() == "Hello you, 🙂"
    assert len(pieces) == table.result.attributes.shape[0]
    assert (pieces.piece(-1), pieces.piece(10**6), pieces.text(0)) == (b"", b"", "<|end|>")


# --- the script -------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_has_ids_and_comes_back_whole(text: str) -> None:
    assert "".join(split_words(text)) == text
    vocabulary = ScriptVocabulary(Script(replies=[ScriptReply(text="Hello you")]))
    pieces = [vocabulary.pieces[i] for i in vocabulary.tokenize(text)]
    assert b"".join(pieces).decode() == text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not understood"),
        ('{"replies": [{"txt": "x"}]}', "txt"),
        ('{"replies": [{"tokens": [{"hex": "zz"}]}]}', "not understood"),
    ],
)
def test_a_script_that_does_not_fit_is_refused_in_words(
    content: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "script.json"
    path.write_text(content)
    with pytest.raises(ScriptError, match=words):
        read_script(path)


def test_a_script_that_is_not_there() -> None:
    with pytest.raises(ScriptError, match="can't be read"):
        read_script("/does/not/exist.json")


@pytest.mark.parametrize("path", sorted((ROOT / "resources" / "scripts").glob("*.json")))
def test_the_scripts_that_ship_can_be_played(path: Path) -> None:
    script = read_script(path)
    assert script.replies
    for reply in script.replies:
        assert list(reply.steps())
    json.dumps([reply.text for reply in script.replies])


# --- the whole trace --------------------------------------------------------------------------


def test_stages_and_the_draw_come_from_the_script(talk: ScriptedTalk) -> None:
    token = {
        "text": "blue",
        "alternatives": [["red", 0.5], ["blue", 0.25]],
        "stages": [["top-k", 2, 0.33], ["dist", 1, 1.0]],
        "removed_by": [0, 255],
        "uniform": 0.75,
        "drafted": True,
        "draft_probability": 0.5,
    }
    other = {"text": "!", "rejected": [["?", 0.9], ["!", 0.4]], "rejected_probability": 0.25}
    engine = talk.loaded_engine(_script({"tokens": [token, other]}))
    report = _summary(engine, ask(alternatives=8, record_stages=True)).drafts
    _summary(engine, ask(alternatives=8))
    with_stages, last, without, _ = (event.token for event in talk.of(TokenArrived))
    assert with_stages.draft_logprob == pytest.approx(math.log(0.5))
    assert last.rejected is not None
    assert (last.rejected.pieces, last.rejected.logprob) == ([b"?", b"!"], math.log(0.25))
    assert report is not None
    assert (report.passes, report.proposed, report.accepted) == (1, 3, 1)
    assert [(each.proposed, each.accepted) for each in report.by_position] == [
        *((1, 1), (1, 0), (1, 0)),
    ]
    assert [(s.stage, s.left) for s in with_stages.stages] == [("top-k", 2), ("dist", 1)]
    assert with_stages.removed_by is not None
    assert with_stages.removed_by.data == bytes([0, 255])
    assert (with_stages.uniform, with_stages.drafted) == (0.75, True)
    assert (without.stages, without.removed_by) == ([], None)


def test_tokens_are_taken_back_without_a_trace_in_the_text(talk: ScriptedTalk) -> None:
    tokens = [
        {"text": "good "},
        {"text": "bad", "withheld": True},
        {"text": " word", "withheld": True},
        {"take_back": 2},
        {"text": "day"},
    ]
    engine = talk.loaded_engine(_script({"tokens": tokens}))
    summary = _summary(engine, ask())
    assert (summary.text, summary.generated) == ("good day", 2)
    assert [event.n_tokens for event in talk.of(TextTakenBack)] == [2]
    assert [event.token.index for event in talk.of(TokenArrived)] == [0, 1, 2, 1]


def test_the_prompt_is_scored_where_the_script_says_how(talk: ScriptedTalk) -> None:
    reply = {"text": "Hi", "prompt_probabilities": [0.75, 0.125]}
    engine = talk.loaded_engine(_script(reply))
    summary = _summary(engine, ask("a b", score_prompt=True))
    (scores,) = talk.of(PromptScores)
    assert scores.start == 1
    assert summary.prompt_ids is not None
    assert scores.token_ids == summary.prompt_ids[1:]
    logprobs = struct.unpack(f"<{len(scores.token_ids)}f", scores.logprobs.data)
    assert logprobs[:2] == pytest.approx([math.log(0.75), math.log(0.125)])
    assert struct.unpack("<2i", scores.ranks.data[:8]) == (1, 8)


def test_the_oldest_turns_are_left_out(talk: ScriptedTalk) -> None:
    engine = talk.loaded_engine(_script({"text": "Hi"}, loaded={"n_ctx": 64}))
    messages = [
        ChatMessage("assistant" if i % 2 else "user", "four words are here", message_id=str(i))
        for i in range(11)
    ]
    prompt = ChatPrompt(messages)
    summary = _summary(engine, Generate(0, prompt, context_policy="drop_oldest"))
    assert [c.message_id for c in summary.cut] == [str(i) for i in range(len(summary.cut))]
    assert summary.cut
    assert "dropped" in summary.notes[0]
    ending = engine.wait_for(engine.request(CountPrompt(0, prompt, "drop_oldest")), PATIENCE_S)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, PromptCount)
    assert ending.result.n_tokens == summary.prompt_tokens
    assert ending.result.n_cut == len(summary.cut)
