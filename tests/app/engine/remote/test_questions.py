"""What else servers are asked: tokens, prompts, thinking, scores; and what none of them knows."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
import scripted_servers as servers
from remote_talk import CHAT, TEXT
from scripted_servers import DONE, Stream, chunk, delta, finish, sse

from app.engine.protocol import messages as protocol
from app.engine.protocol.loading_messages import LoadWeights
from app.engine.protocol.messages import (
    CheckGrammar,
    Choose,
    CountPrompt,
    Generate,
    Hold,
    PromptCount,
    PromptScores,
    Resume,
    Shutdown,
    Stop,
    Tokenize,
    Tokens,
)
from app.engine.protocol.pieces import unpack
from app.engine.protocol.prompt_messages import (
    ChatMessage,
    ChatPrompt,
    IdsPrompt,
    PromptShown,
    ReadPrompt,
    TextPrompt,
)
from app.engine.protocol.stages import Sampling
from app.engine.protocol.thinking_messages import ReadThinking, ThinkingOffer
from app.engine.protocol.tool_messages import Tool
from app.engine.remote.questions import NEEDS

HI = ChatPrompt([ChatMessage("user", "Hi")])
PLAIN = Sampling([])


def test_llama_server_tokenises_with_pieces(talk):
    one = talk(servers.llama_server())
    rows = [{"id": 19556, "piece": "Hello"}, {"id": 198, "piece": [195]}]
    one.server.answers["/tokenize"] = {"tokens": rows}
    found = one.answer(Tokenize(0, "Hello", special=True, add_special=True))
    assert found == Tokens([19556, 198], [b"Hello", b"\xc3"])
    assert one.server.asked("/tokenize")[0].body == {
        "content": "Hello",
        "add_special": True,
        "parse_special": True,
        "with_pieces": True,
    }


@pytest.mark.parametrize("told", [{"tokens": [{"id": "x"}]}, {"tokens": [7]}])
def test_tokens_that_make_no_sense_are_refused(talk, told):
    one = talk(servers.llama_server())
    one.server.answers["/tokenize"] = told
    assert "can't be read" in one.answer(Tokenize(0, "Hello"))


@pytest.mark.usefixtures("forked_children")
def test_llama_server_shows_and_counts_its_prompt(talk):
    one = talk(servers.llama_server())
    one.server.answers["/apply-template"] = {"prompt": "<user>Hi<end>"}
    told = {1: "<user>", 5: "Hi", 2: "<end>"}
    rows = [{"id": token_id, "piece": piece} for token_id, piece in told.items()]
    one.server.answers["/tokenize"] = {"tokens": rows}
    assert one.answer(CountPrompt(0, HI)) == PromptCount(3, 4096)
    # Rendered here it would be other tokens, so nobody knows whose they are.
    one.server.answers["/tokenize"] = [{"tokens": rows}, {"tokens": rows[:1]}]
    shown = one.answer(ReadPrompt(0, HI))
    assert isinstance(shown, PromptShown)
    shown.check()
    assert "doesn't say whose a token is" in shown.notes[0]
    one.server.answers["/tokenize"] = {"tokens": rows}
    assert unpack(shown.token_ids) == (1, 5, 2)
    assert (shown.blob, shown.rendered) == (b"<user>Hi<end>", "<user>Hi<end>")
    assert [part.origin for part in shown.parts] == ["unknown"]
    asked = one.server.asked("/apply-template")[-1].body
    assert asked == {"messages": [{"role": "user", "content": "Hi"}]}
    shown = one.answer(ReadPrompt(0, TextPrompt("Once")))
    assert [part.origin for part in shown.parts] == ["text"]
    # The server reads all prompts so; a real one counted 5 for "<|im_start|>user\nHi<|im_end|>".
    assert one.server.asked("/tokenize")[-1].body["parse_special"] is True
    assert one.answer(CountPrompt(0, IdsPrompt([1, 2]))) == PromptCount(2, 4096)


@pytest.mark.parametrize(
    ("strings", "text", "pieces"),
    [
        (["Hel", "lo", "Ġwörld"], "Hello wörld", [b"Hel", b"lo", "Ġwörld".encode()]),
        (["Hello", "ĠwÃ¶rld"], "Hello wörld", [b"Hello", " wörld".encode()]),
        (["▁Hello", "▁world", "<0x0A>"], " Hello world\n", [b" Hello", b" world", b"\n"]),
    ],
)
def test_vllms_strings_are_bytes_in_one_of_two_ways(talk, strings, text, pieces):
    one = talk(servers.vllm())
    ids = list(range(len(strings)))
    one.server.answers["/tokenize"] = {
        "count": len(ids),
        "max_model_len": 8192,
        "tokens": ids,
        "token_strs": strings,
    }
    one.server.answers["/detokenize"] = {"prompt": text}
    found = one.answer(Tokenize(0, text))
    if b"".join(pieces).decode() == text:
        assert found == Tokens(ids, pieces)
        shown = one.answer(ReadPrompt(0, HI))
        assert shown.rendered == text
        asked = one.server.asked("/tokenize")[-1].body
        assert asked["messages"] == [{"role": "user", "content": "Hi"}]
        assert asked["add_generation_prompt"] is True
    else:  # neither way spells the text: nothing is guessed
        assert "doesn't tell what each token spells" in found
    assert one.answer(CountPrompt(0, HI)) == PromptCount(len(ids), 8192)


def scores(*rows: tuple[int, float, int] | None) -> list[Any]:
    return [
        None
        if row is None
        else {str(row[0]): {"logprob": row[1], "rank": row[2], "decoded_token": "x"}}
        for row in rows
    ]


def test_vllm_scores_a_prompt(talk):
    one = talk(servers.vllm())
    told = scores(None, (7, -0.5, 1), (9, -4.0, 33))
    one.server.answers[TEXT] = {"choices": [{"text": "x", "prompt_logprobs": told}]}
    wish = Generate(0, IdsPrompt([5, 7, 9]), PLAIN, max_tokens=1, score_prompt=True)
    summary = one.end(one.engine.generate(wish)).result
    assert summary.prompt_tokens == 3
    (event,) = [each for each in one.events if isinstance(each, PromptScores)]
    assert (event.start, event.token_ids) == (1, [7, 9])
    assert (unpack(event.logprobs), unpack(event.ranks)) == ((-0.5, -4.0), (1, 33))
    assert one.body["prompt_logprobs"] == 0
    one.server.answers[TEXT] = {"choices": [{"prompt_logprobs": scores(None, (8, -0.5, 1), None)}]}
    failed = one.end(one.engine.generate(wish))
    assert "its scores have gaps" in failed.sentence


@pytest.mark.usefixtures("forked_children")
def test_a_reply_goes_on_inside_its_reasoning(talk):
    one = talk(servers.llama_server("{{ messages }}<think>"))
    one.server.answers["/apply-template"] = {"prompt": "<user>Hi<assistant>"}
    one.server.answers[TEXT] = Stream(sse(chunk({"text": " so"}), chunk({"finish_reason": "stop"})))
    said = [*HI.messages, ChatMessage("assistant", "", "Well,")]
    assert one.reply(ChatPrompt(said, continue_last=True), sampling=PLAIN).text == " so"
    assert one.body["prompt"] == "<user>Hi<assistant><think>\nWell,"


@pytest.mark.usefixtures("forked_children")
def test_a_reply_that_begins_with_tokens_begins_with_what_they_spell(talk):
    one = talk(servers.llama_server())
    one.server.answers["/detokenize"] = {"content": "Hello"}
    one.server.answers[CHAT] = Stream(sse(delta(" you"), finish("stop"), DONE))
    prompt = msgspec.structs.replace(HI, begin_ids=[1])
    summary = one.reply(prompt, forced_ids=[2], sampling=PLAIN)
    assert summary.text == one.text() == "Hello you"
    assert one.server.asked("/detokenize")[0].body["tokens"] == [1, 2]
    assert one.body["messages"][-1] == {"role": "assistant", "content": "Hello"}
    one.server.answers["/detokenize"] = {"content": "\ufffd"}  # a part of a character
    assert "doesn't tell what these tokens spell" in one.failed(prompt, sampling=PLAIN).sentence
    plain = talk(servers.plain())
    assert "doesn't tell what these tokens spell" in plain.failed(prompt, sampling=PLAIN).sentence


QWEN = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
)


@pytest.mark.usefixtures("forked_children")
def test_thinking_is_found_out_in_the_servers_template_and_sent(talk):
    one = talk(servers.llama_server(QWEN))
    offer = one.answer(ReadThinking(0))
    assert (offer.choices, offer.has_reasoning) == (["off", "on"], True)
    one.server.answers[CHAT] = Stream(sse(delta("Hi"), finish("stop")))
    one.reply(msgspec.structs.replace(HI, thinking="off"), sampling=PLAIN)
    assert one.body["chat_template_kwargs"] == {"enable_thinking": False}
    one.reply(msgspec.structs.replace(HI, thinking="high"), sampling=PLAIN)
    assert "has no thinking mode “high”, only off, on" in one.notes[-1]
    assert "chat_template_kwargs" not in one.body
    one.server.answers["/apply-template"] = {"prompt": "x"}
    one.server.answers["/tokenize"] = {"tokens": [{"id": 1, "piece": "x"}]}
    tools = msgspec.structs.replace(HI, thinking="off", tools=[Tool("time")])
    assert one.answer(CountPrompt(0, tools)) == PromptCount(1, 4096)
    asked = one.server.asked("/apply-template")[-1].body
    assert asked["chat_template_kwargs"] == {"enable_thinking": False}
    assert asked["tools"][0]["function"]["name"] == "time"
    assert talk(servers.llama_server()).answer(ReadThinking(0)).choices == []
    assert talk(servers.plain()).answer(ReadThinking(0)) == ThinkingOffer()
    choices = talk(servers.ollama()).answer(ReadThinking(0)).choices
    assert choices == ["off", "low", "medium", "high"]


STEERING = (Stop, Hold, Choose, Resume)
OTHERS = [
    kind
    for kind in get_args(protocol.Command)
    if kind not in (*STEERING, Shutdown, Generate, LoadWeights, ReadThinking)
]


def made(kind: type[Any]) -> Any:
    """A command with nothing in it."""
    filled = {}
    for each in msgspec.structs.fields(kind):
        if each.required:
            name = str(each.type)
            text, listed = ("" if "str" in name else 0), "list" in name
            filled[each.name] = [] if listed else HI if "Prompt" in name else text
    return kind(**filled)


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_each_other_command_fails_with_the_reason(talk_once, kind):
    sentence = talk_once.answer(made(kind))
    what, ability = NEEDS[kind]
    assert sentence.startswith(f"{what} cannot be had from “Mine”: ")
    assert talk_once.engine.loaded.remote.why_not(ability) in sentence
    assert sentence.endswith(".")


@pytest.fixture
def talk_once(talk):
    return talk(servers.plain())


def test_commands_of_step_mode_and_a_grammar(talk):
    one = talk(servers.llama_server())
    assert one.engine.request(Hold(7)) == 7
    assert one.engine.request(Choose(7, 1)) == 7
    assert one.engine.request(Resume(7)) == 7
    with pytest.raises(TypeError):
        one.engine.request(Shutdown())
    assert "checks a grammar only when it answers" in one.answer(CheckGrammar(0, "root ::= [a]"))
