"""Our requests under each server's names. No server runs here."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_servers import llama_server as llama_answers

from app.engine.protocol.adapter_messages import Adapters, Lora
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, IdsPrompt, TextPrompt
from app.engine.protocol.remote_messages import (
    KIND_NAMES,
    EngineAddress,
    EngineOffer,
    RemoteModel,
    ServerKind,
)
from app.engine.protocol.stages import (
    AdaptiveP,
    Dry,
    DynamicTemperature,
    Greedy,
    LogitBias,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    Temperature,
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.engine.protocol.tool_messages import Tool, ToolCall
from app.engine.remote.asking import CHAT, TEXT, Asked, asked_for
from app.engine.remote.kinds import KINDS, lacks_of, stage_lacks
from app.engine.remote.target import Target
from app.refusal import Refusal

HI = ChatPrompt([ChatMessage("user", "Hi")])
KIND_LIST: list[ServerKind] = list(KIND_NAMES)


def target(kind: ServerKind, url: str = "http://localhost:1", **fields: Any) -> Target:
    known = None
    if kind in ("llama-server", "cutaway"):
        settings = llama_answers()["/props"]["default_generation_settings"]
        known = frozenset({*settings["params"], "min_keep", "dry_sequence_breakers"})
    offer = EngineOffer(
        engine_id="e1",
        name="Mine",
        kind=kind,
        missing=lacks_of(kind, "Mine"),
        stages=stage_lacks(kind, "Mine", known),
        n_logprobs=KINDS[kind].most_logprobs,
    )
    address = EngineAddress("e1", "Mine", url)
    return Target(address, offer, RemoteModel("m", **fields), known)


def asked(kind: ServerKind, prompt: Any = HI, begin: str = "", **fields: Any) -> Asked:
    return asked_for(Generate(1, prompt, **fields), target(kind), begin)


def sampled(kind: ServerKind, *filters: Any, **fields: Any) -> dict[str, Any]:
    return asked(kind, sampling=Sampling([*filters], **fields)).body


@pytest.mark.parametrize("kind", KIND_LIST)
def test_a_chat_is_asked_for_as_openai_has_it(kind):
    found = asked(kind, max_tokens=7, stop=["END"], sampling=Sampling([Temperature(0.5)], seed=3))
    assert found.path == CHAT
    body = found.body
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert (body["model"], body["stream"], body["max_tokens"]) == ("m", True, 7)
    assert body["stream_options"] == {"include_usage": True}
    assert (body["stop"], body["temperature"], body["seed"], found.seed) == (["END"], 0.5, 3, 3)
    assert ("logprobs" in body) == (kind != "lm-studio")


@pytest.mark.parametrize("kind", KIND_LIST)
def test_greedy_is_a_temperature_of_0(kind):
    body = sampled(kind, Temperature(0.7), TopK(40), select=Greedy())
    assert body["temperature"] == 0
    if kind in ("llama-server", "cutaway"):
        assert body["samplers"] == ["top_k", "temperature"]


@pytest.mark.parametrize("kind", KIND_LIST)
def test_what_the_chain_does_not_have_is_switched_off(kind):
    body = sampled(kind, Temperature(1.0))
    neutral = {k: v for k, v in KINDS[kind].neutral.items() if k != "temperature"}
    assert {k: body[k] for k in neutral} == neutral
    if kind in ("llama-server", "cutaway"):
        assert body["samplers"] == ["temperature"]


def test_a_seed_is_drawn_and_told_where_none_is_given():
    first, second = asked("vllm"), asked("vllm")
    assert first.seed is not None
    assert first.seed == first.body["seed"] != second.seed


def test_llama_server_takes_the_whole_chain_in_its_order():
    filters = [
        Penalties(last_n=9, repeat=1.1, frequency=0.2, presence=0.3),
        Dry(1.5, 1.8, 3, 99, ["\n"]),
        TopNSigma(1.2),
        TopK(30),
        Typical(0.9),
        TopP(0.8, min_keep=2),
        MinP(0.1, min_keep=3),
        Xtc(0.4, 0.2),
        DynamicTemperature(0.7, 0.3, 1.5),
    ]
    found = asked("llama-server", sampling=Sampling([*reversed(filters)]))
    wanted = {
        "repeat_last_n": 9,
        "repeat_penalty": 1.1,
        "frequency_penalty": 0.2,
        "presence_penalty": 0.3,
        "dry_multiplier": 1.5,
        "dry_base": 1.8,
        "dry_allowed_length": 3,
        "dry_penalty_last_n": 99,
        "dry_sequence_breakers": ["\n"],
        "top_n_sigma": 1.2,
        "top_k": 30,
        "typical_p": 0.9,
        "top_p": 0.8,
        "min_p": 0.1,
        "xtc_probability": 0.4,
        "xtc_threshold": 0.2,
        "temperature": 0.7,
        "dynatemp_range": 0.3,
        "dynatemp_exponent": 1.5,
        "min_keep": 3,
    }
    assert {name: found.body[name] for name in wanted} == wanted
    assert found.body["samplers"] == [
        *("temperature", "xtc", "min_p", "top_p", "typ_p", "top_k", "top_n_sigma", "dry"),
        "penalties",
    ]
    assert found.notes == []


def test_llama_server_is_told_its_whole_context_as_a_number():
    wish = Generate(1, HI, sampling=Sampling([Penalties(last_n=-1, repeat=1.1), Dry(0.8)]))
    body = asked_for(wish, target("llama-server", n_ctx=4096)).body
    assert (body["repeat_last_n"], body["dry_penalty_last_n"]) == (4096, 4096)


def test_llama_server_tells_tokens_without_alternatives_too():
    found = asked("llama-server", alternatives=0)
    assert (found.body["top_logprobs"], found.n_logprobs) == (1, 0)


def test_other_selections_go_under_their_names():
    body = sampled("llama-server", select=MirostatV2(4.0, 0.2))
    assert (body["mirostat"], body["mirostat_tau"], body["mirostat_eta"]) == (2, 4.0, 0.2)
    body = sampled("llama-cpp-python", select=Mirostat(4.0, 0.2))
    assert (body["mirostat_mode"], body["mirostat_tau"]) == (1, 4.0)
    found = asked("vllm", sampling=Sampling([], AdaptiveP(0.5)))
    assert "“Mine” doesn't take adaptive-p: not applied." in [words for _, words in found.notes]
    assert "adaptive_target" not in found.body


def test_what_a_server_does_not_take_is_not_sent_and_named():
    chain = [Dry(), Xtc(), Penalties(last_n=9, repeat=1.2), TopK(7), TopK(5)]
    found = asked("vllm", sampling=Sampling([*chain]))
    (note,) = found.notes
    assert note[1] == (
        "“Mine” doesn't take DRY, XTC, the window of penalties and the second top-k: not applied."
    )
    assert found.body["repetition_penalty"] == 1.2
    assert found.body["top_k"] == 7
    assert not any(name.startswith(("dry", "xtc", "repeat_")) for name in found.body)
    assert asked("vllm", sampling=Sampling([Penalties(), Xtc(0.0), Dry(0.0)])).notes == []


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("llama-server", [[5, 2.0], [" cat", False]]),
        ("vllm", {"5": 2.0}),
    ],
)
def test_biases(kind, wanted):
    bias = LogitBias([TokenBias(5, bias=2.0), TokenBias(text=" cat", ban=True)])
    found = asked(kind, sampling=Sampling([bias]))
    assert found.body["logit_bias"] == wanted
    assert [words for _, words in found.notes] == (
        []
        if kind == "llama-server"
        else ["“Mine” doesn't take logit biases of texts: not applied."]
    )


def test_grammars_and_schemas_go_where_each_wants_them():
    grammar = {"grammar": 'root ::= "a"'}
    assert sampled("llama-server", **grammar)["grammar"] == 'root ::= "a"'
    assert sampled("vllm", **grammar)["structured_outputs"] == grammar
    assert sampled("sglang", **grammar)["ebnf"] == 'root ::= "a"'
    with pytest.raises(Refusal, match="takes no grammar"):
        sampled("ollama", **grammar)
    schema = {"json_schema": '{"type": "object"}'}
    told = sampled("openai", **schema)["response_format"]
    assert told["json_schema"]["schema"] == {"type": "object"}
    told = sampled("llama-cpp-python", **schema)["response_format"]
    assert told == {"type": "json_object", "schema": {"type": "object"}}
    with pytest.raises(Refusal, match="isn't valid JSON"):
        sampled("openai", json_schema="{")


def test_rules_for_the_end():
    rules = Sampling([], min_tokens=3, ban_end_token=True, banned_strings=["no"])
    body = asked("vllm", sampling=rules, stop_ids=[2]).body
    assert (body["min_tokens"], body["ignore_eos"], body["bad_words"]) == (3, True, ["no"])
    assert body["stop_token_ids"] == [2]
    found = asked("openai", sampling=rules, stop_ids=[2])
    assert not {"min_tokens", "ignore_eos", "bad_words", "stop_token_ids"} & found.body.keys()
    assert len(found.notes) == 4


def test_a_reply_is_continued_where_that_can_be_asked_for():
    said = [ChatMessage("user", "Hi"), ChatMessage("assistant", "Hel")]
    goes_on = ChatPrompt(said, continue_last=True)
    body = asked("vllm", goes_on).body
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert body["messages"][-1] == {"role": "assistant", "content": "Hel"}
    assert asked("sglang", goes_on).body["continue_final_message"] is True
    body = asked("llama-server", goes_on, "lo").body
    assert body["messages"][-1]["content"] == "Hello"
    assert asked("llama-server", HI, "Well").body["messages"][-1]["content"] == "Well"
    with pytest.raises(Refusal, match=r"no documented way to continue a reply\. Regenerate"):
        asked("openai", goes_on)
    inside = ChatPrompt([said[0], ChatMessage("assistant", "", "Hmm")], continue_last=True)
    with pytest.raises(Refusal, match="can't continue inside the reasoning"):
        asked("vllm", inside)


def test_turns_of_one_role_are_one_message():
    said = [
        ChatMessage("user", "A"),
        ChatMessage("user", "B"),
        ChatMessage("assistant", "C", "why"),
        ChatMessage("assistant", "D"),
        ChatMessage("user", "E"),
    ]
    told = asked("sglang", ChatPrompt(said)).body["messages"]
    assert [each["content"] for each in told] == ["A\n\nB", "C\n\nD", "E"]
    assert told[1]["reasoning_content"] == "why"
    assert "reasoning_content" not in asked("openai", ChatPrompt(said)).body["messages"][1]


def test_tools_calls_and_results():
    call = ToolCall("c1", "time", '{"zone": "Asia/Tokyo"}')
    said = [
        ChatMessage("user", "?"),
        ChatMessage("assistant", "", tool_calls=[call]),
        ChatMessage("tool", "12:00", tool_call_id="c1", tool_name="time"),
    ]
    tool = Tool("time", "The time.", '{"type": "object"}')
    body = asked("openai", ChatPrompt(said, tools=[tool], tool_choice="time")).body
    assert body["messages"][1]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "time", "arguments": call.arguments}}
    ]
    assert body["messages"][2] == {
        "role": "tool",
        "content": "12:00",
        "tool_call_id": "c1",
        "name": "time",
    }
    assert body["tools"][0]["function"]["parameters"] == {"type": "object"}
    assert body["tool_choice"] == {"type": "function", "function": {"name": "time"}}
    one = ChatPrompt(said, tools=[tool], parallel_tool_calls=False)
    assert asked("openai", one).body["parallel_tool_calls"] is False
    assert "tools" not in asked("openai", ChatPrompt(said, tools=[tool], tool_choice="none")).body
    with pytest.raises(Refusal, match="The parameters of the tool “time” aren't valid JSON"):
        asked("openai", ChatPrompt(said, tools=[Tool("time", "", "{")]))


def test_thinking_is_chosen_as_each_kind_has_it():
    def chosen(kind, choice, **fields):
        prompt = ChatPrompt(HI.messages, thinking=choice, **fields)
        return asked(kind, prompt, sampling=Sampling([]))

    assert chosen("llama-server", "off").body["chat_template_kwargs"] == {"enable_thinking": False}
    assert chosen("llama-server", "low", variables='{"date": "today"}').body[
        "chat_template_kwargs"
    ] == {"date": "today", "reasoning_effort": "low"}
    assert chosen("ollama", "off").body["reasoning_effort"] == "none"
    found = chosen("openai", "off", variables='{"date": 1}')
    assert "chat_template_kwargs" not in found.body
    assert [kind for kind, _ in found.notes] == ["thinking", "template_variables"]


def test_texts_and_ids_are_completed():
    found = asked("vllm", TextPrompt("Once"), " upon")
    assert (found.path, found.body["prompt"], found.body["max_tokens"]) == (TEXT, "Once upon", None)
    assert "messages" not in found.body
    assert found.body["logprobs"] == 8
    found = asked("llama-server", IdsPrompt([1, 2]))
    assert (found.body["prompt"], found.body["n_probs"]) == ([1, 2], 8)
    with pytest.raises(Refusal, match="takes no prompts of token IDs"):
        asked("openai", IdsPrompt([1]))


def test_what_only_the_engine_here_can_is_noted_or_refused():
    adapters = Adapters([Lora("/a.gguf")])
    template = ChatPrompt(HI.messages, template="{{ x }}", reasoning_budget=5)
    found = asked("vllm", template, hold=True, repeatable=True, adapters=adapters)
    names = [kind for kind, _ in found.notes]
    assert names == ["step", "adapters", "repeatable", "template", "reasoning_budget"]
    with pytest.raises(Refusal, match=r"can't be cut on “Mine”\. Use a local model"):
        asked("vllm", cuts=[Cut("layer", 0)])


def test_openai_itself_has_another_name_for_the_limit():
    itself = target("openai", "https://api.openai.com")
    assert asked_for(Generate(1, HI, max_tokens=9), itself).body["max_completion_tokens"] == 9
