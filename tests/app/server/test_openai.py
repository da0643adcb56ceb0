"""OpenAI's endpoints, by hand over HTTP and with its own client."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from msgspec.structs import replace
from serving import Served

from app.engine.protocol.messages import Generate, Summary
from app.engine.protocol.prompt_messages import ChatMessage
from app.engine.protocol.tool_messages import ToolCall
from app.server.known_replies import KnownReplies


def _last(served: Served) -> Generate:
    found: Generate = served.generates()[-1]
    return found


def test_a_chat_is_answered_whole(served: Served) -> None:
    answer = served.chat(max_tokens=9)
    assert answer.status == 200
    (choice,) = answer.json["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hello", "refusal": None}
    assert choice["finish_reason"] == "stop"
    usage = answer.json["usage"]
    assert usage["completion_tokens"] == 2
    assert usage["total_tokens"] == usage["prompt_tokens"] + 2
    timings = answer.json["timings"]
    assert timings["predicted_n"] == 2
    assert timings["prompt_n"] + timings["cache_n"] == usage["prompt_tokens"]
    assert _last(served).max_tokens == 9


def test_and_in_pieces_with_the_same_text_and_counts(served: Served) -> None:
    answer = served.chat(stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    *chunks, last = answer.chunks
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content", "") for delta in deltas) == "Hello"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert {chunk["id"] for chunk in [*chunks, last]} == {last["id"]}
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 2
    assert all(chunk["usage"] is None for chunk in chunks)


def test_log_probabilities_of_a_chat(served: Served) -> None:
    answer = served.chat(logprobs=True, top_logprobs=2)
    first, second = answer.json["choices"][0]["logprobs"]["content"]
    assert (first["token"], first["bytes"]) == ("Hel", list(b"Hel"))
    assert first["logprob"] == pytest.approx(math.log(0.9))
    assert second["logprob"] == pytest.approx(math.log(0.5))
    top = {each["token"]: each["logprob"] for each in second["top_logprobs"]}
    assert top == {"lo": pytest.approx(math.log(0.5)), "p": pytest.approx(math.log(0.3))}
    streamed = served.chat(logprobs=True, top_logprobs=2, stream=True)
    told = [chunk["choices"][0]["logprobs"] for chunk in streamed.chunks]
    assert [each for some in told if some for each in some["content"]] == [first, second]


def test_a_completion_with_its_scores_and_its_prompt_before_it(served: Served) -> None:
    answer = served.ask("/v1/completions", {"prompt": "Hi", "logprobs": 1, "seed": 7})
    (choice,) = answer.json["choices"]
    assert choice["text"] == "Hello"
    scores = choice["logprobs"]
    assert (scores["tokens"], scores["text_offset"]) == (["Hel", "lo"], [0, 3])
    assert scores["token_logprobs"] == pytest.approx([math.log(0.9), math.log(0.5)])
    assert scores["top_logprobs"][1] == {"lo": pytest.approx(math.log(0.5))}
    assert _last(served).sampling.seed == 7
    echoed = served.ask("/v1/completions", {"prompt": "Hi", "echo": True})
    assert echoed.json["choices"][0]["text"] == "HiHello"


def test_several_choices_have_seeds_of_their_own(served: Served) -> None:
    answer = served.chat(n=3, seed=11)
    assert [c["index"] for c in answer.json["choices"]] == [0, 1, 2]
    assert [g.sampling.seed for g in served.generates()[-3:]] == [11, 12, 13]
    assert answer.json["usage"]["completion_tokens"] == 6
    prompts = served.ask("/v1/completions", {"prompt": ["Hi", [77, 110]], "n": 2})
    assert len(prompts.json["choices"]) == 4
    texts = ["", ""]
    for chunk in served.chat(n=2, stream=True).chunks:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == ["Hello", "Hello"]


def test_reasoning_is_told_apart(served: Served) -> None:
    message = served.chat("think").json["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("hm", "ok")
    deltas = [c["choices"][0]["delta"] for c in served.chat("think", stream=True).chunks]
    assert {"reasoning_content": "hm"} in deltas


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_begin_has_its_status(served: Served, stream: bool) -> None:
    answer = served.chat("refuse", stream=stream)
    assert answer.status == 400
    assert answer.error["code"] == "context_length_exceeded"
    assert answer.error["message"] == "The chat has 9 tokens."


def test_what_fails_in_the_middle_says_so(served: Served) -> None:
    assert served.chat("fail").status == 500
    answer = served.chat("fail", stream=True)
    assert answer.status == 200
    assert answer.chunks[-1]["error"]["message"] == "llama.cpp failed. Try again."
    assert b"[DONE]" not in answer.body


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temprature": 1}, "temprature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 1e300}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"min_p": -1}, "min_p"),
        ({"xtc_probability": 3}, "xtc_probability"),
        ({"dry_multiplier": 1, "dry_base": 0}, "dry_base"),
        ({"mirostat": 3}, "mirostat"),
        ({"mirostat": 2, "mirostat_tau": 0}, "mirostat_tau"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
        ({"samplers": ["magic"]}, "samplers"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"seed": 1.5}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 99}, "n"),
        ({"stop": [""]}, "stop"),
        ({"stop": 5}, "stop"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"grammar": 'root ::= "a"', "json_schema": {}}, "grammar"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"functions": []}, "functions"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "king", "content": ""}]}, "messages[0].role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "file"}]}]},
            "messages[0].content[0].type",
        ),
    ],
)
def test_what_is_not_taken_is_named(served: Served, fields: dict[str, Any], param: str) -> None:
    answer = served.chat(**fields)
    assert answer.status == 400, answer.body
    assert answer.error["param"] == param
    assert len(answer.error["message"]) > 15


def test_what_the_engine_refuses_is_named_as_it_was_sent(served: Served) -> None:
    answer = served.chat("biased", logit_bias={"7": 1})
    assert (answer.status, answer.error["param"]) == (400, "logit_bias")
    assert answer.error["message"].startswith("logit_bias: The token of")


def test_another_model_than_the_loaded_one_is_refused(served: Served) -> None:
    answer = served.chat(model="gpt-5")
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    assert "“weights”" in answer.error["message"]
    assert served.chat(model="weights").status == 200
    assert served.ask("/v1/models/weights").json["id"] == "weights"
    assert [m["id"] for m in served.ask("/v1/models").json["data"]] == ["weights"]


def test_a_reply_comes_back_as_the_tokens_that_it_was(served: Served) -> None:
    served.chat()
    ids = served.exchanges[-1].replies[0].summary
    assert ids is not None
    chat = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Hi again"},
    ]
    served.ask("/v1/chat/completions", {"messages": chat})
    prompt: Any = _last(served).prompt
    assert prompt.messages[1].token_ids == ids.token_ids
    assert _last(served).conversation == served.generates()[-2].conversation


TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "clock",
            "description": "What time it is.",
            "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
        },
    }
]


def test_calls_of_tools_and_their_results(served: Served) -> None:
    answer = served.chat("time", tools=TOOLS, tool_choice="required", parallel_tool_calls=True)
    (choice,) = answer.json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Let me look."
    calls = choice["message"]["tool_calls"]
    assert [call["id"] for call in calls] == ["call_1", "call_2"]
    assert json.loads(calls[0]["function"]["arguments"]) == {"zone": "Asia/Tokyo"}
    prompt: Any = _last(served).prompt
    assert (prompt.tools[0].name, prompt.tool_choice) == ("clock", "required")
    assert json.loads(prompt.tools[0].parameters) == TOOLS[0]["function"]["parameters"]
    streamed = served.chat("time", tools=TOOLS, stream=True).chunks
    told = [d for c in streamed for d in c["choices"][0]["delta"].get("tool_calls", [])]
    assert [call["index"] for call in told] == [0, 1]
    assert [call["function"] for call in told] == [call["function"] for call in calls]
    assert streamed[-1]["choices"][0]["finish_reason"] == "tool_calls"
    messages = [
        {"role": "user", "content": "time"},
        choice["message"],
        {"role": "tool", "tool_call_id": "call_1", "content": "12:00"},
    ]
    last = served.ask("/v1/chat/completions", {"messages": messages, "tools": TOOLS})
    assert last.json["choices"][0]["message"]["content"] == "It is noon."
    prompt = _last(served).prompt
    assert [call.name for call in prompt.messages[1].tool_calls] == ["clock", "clock"]
    result = prompt.messages[2]
    assert (result.role, result.tool_call_id, result.tool_name) == ("tool", "call_1", "clock")


def test_a_reply_comes_back_as_its_tokens_only_with_its_calls() -> None:
    known = KnownReplies()
    call = ToolCall("c1", "clock", '{"zone": "UTC", "at": 1}')
    for text in ("Let me look.", ""):
        known.note("w", Summary("tool_calls", text, token_ids=[5, 6], tool_calls=[call]))
        said = ChatMessage("assistant", text, tool_calls=[call])
        rewritten = replace(call, id="other", arguments='{"at":1,"zone":"UTC"}')
        edited = replace(call, arguments='{"zone": "Asia/Tokyo"}')
        messages = [said, *(replace(said, tool_calls=[c]) for c in (rewritten, edited))]
        given = known.given("w", [*messages, replace(said, tool_calls=[])])
        assert [each.token_ids for each in given] == [[5, 6], [5, 6], None, None]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "clock"}, "tool_choice"),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}},
            "tool_choice",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
    ],
)
def test_tools_that_cannot_be_are_named(served: Served, fields: dict[str, Any], param: str) -> None:
    answer = served.chat(**fields)
    assert (answer.status, answer.error["param"]) == (400, param)


def test_openais_own_client(served: Served) -> None:
    import openai

    with openai.OpenAI(base_url=f"{served.server.address}/v1", api_key="none") as client:
        reply = client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "Hi"}], logprobs=True
        )
        assert reply.choices[0].message.content == "Hello"
        assert reply.choices[0].logprobs is not None
        chunks = client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text == "Hello"
        assert [model.id for model in client.models.list()] == ["weights"]
        with pytest.raises(openai.BadRequestError, match=r"top_p"):
            client.chat.completions.create(
                model="default", messages=[{"role": "user", "content": "Hi"}], top_p=9
            )


def test_vectors_that_an_engine_has_not_are_an_error_that_says_why(served: Served) -> None:
    answer = served.ask("/v1/embeddings", {"input": "Hi"})
    assert (answer.status, answer.error["message"]) == (400, "A script has no vectors of texts.")
    served.wait_until(lambda: served.exchanges[-1].endpoint == "/v1/embeddings")
    read = served.exchanges[-1]
    assert (read.model, read.prompt_tokens) == ("weights", 1)
    for body in ({}, {"input": []}, {"input": [""]}, {"input": "a", "dimensions": 3}):
        assert served.ask("/v1/embeddings", body).status == 400
