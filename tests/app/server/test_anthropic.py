"""Anthropic's endpoint, by hand over HTTP and with its own client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from serving import Answer, Served

TOOLS: list[Any] = [{"name": "clock", "input_schema": {"type": "object", "properties": {}}}]


def _ask(served: Served, text: Any = "Hi", **fields: Any) -> Answer:
    messages = [{"role": "user", "content": text}]
    return served.ask("/v1/messages", {"max_tokens": 99, "messages": messages, **fields})


def _events(answer: Answer) -> list[Any]:
    lines = answer.body.split(b"\n")
    kinds = [line[7:].decode() for line in lines if line.startswith(b"event: ")]
    assert kinds == [chunk["type"] for chunk in answer.chunks]
    return answer.chunks


def test_a_message_is_answered_whole(served: Served) -> None:
    answer = _ask(served, system="Be brief.", stop_sequences=["END"], temperature=0.5)
    message = answer.json
    assert (message["type"], message["role"]) == ("message", "assistant")
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    assert message["usage"]["output_tokens"] == 2
    generate = served.generates()[-1]
    assert [m.role for m in generate.prompt.messages] == ["system", "user"]
    assert (generate.stop, generate.max_tokens) == (["END"], 99)


def test_and_in_events_that_join_to_it(served: Served) -> None:
    events = _events(_ask(served, "think", stream=True))
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    blocks = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
    assert blocks == ["thinking", "text"]
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "text_delta", "text": "ok"},
    ]
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert events[-2]["usage"]["output_tokens"] == 2


def test_calls_of_tools_and_their_results(served: Served) -> None:
    message = _ask(served, "time", tools=TOOLS, tool_choice={"type": "any"}).json
    assert message["stop_reason"] == "tool_use"
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "tool_use"]
    assert message["content"][1]["input"] == {"zone": "Asia/Tokyo"}
    assert served.generates()[-1].prompt.tool_choice == "required"
    events = _events(_ask(served, "time", tools=TOOLS, stream=True))
    parts = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    inputs = [json.loads(p["partial_json"]) for p in parts if p["type"] == "input_json_delta"]
    assert inputs == [block["input"] for block in message["content"][1:]]
    result = [
        {"type": "tool_result", "tool_use_id": "call_1", "content": "12:00", "is_error": True},
        {"type": "text", "text": "12:00 there"},
    ]
    messages = [
        {"role": "user", "content": "time"},
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": result},
    ]
    body = {"max_tokens": 9, "messages": messages, "tools": TOOLS}
    assert served.ask("/v1/messages", body).json["content"][0]["text"] == "It is noon."
    given = served.generates()[-1].prompt.messages
    assert [m.role for m in given] == ["user", "assistant", "tool", "user"]
    assert (given[2].tool_name, given[2].content) == ("clock", "Error: 12:00")


def test_errors_have_its_form(served: Served) -> None:
    answer = served.ask("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}]})
    assert (answer.status, answer.json["type"]) == (400, "error")
    assert answer.error == {"type": "invalid_request_error", "message": "max_tokens is missing."}
    assert _ask(served, model="claude").error["type"] == "not_found_error"
    document = [{"type": "document", "source": {}}]
    assert "messages[0].content[0].type" in _ask(served, document).error["message"]
    assert "thinking" in _ask(served, thinking={"type": "enabled"}).error["message"]
    failed = _events(_ask(served, "fail", stream=True))[-1]
    assert (failed["type"], failed["error"]["type"]) == ("error", "api_error")


def test_anthropics_own_client(served: Served) -> None:
    import anthropic

    with anthropic.Anthropic(base_url=served.server.address, api_key="none") as client:
        messages: list[Any] = [{"role": "user", "content": "Hi"}]
        reply = client.messages.create(model="default", max_tokens=9, messages=messages)
        assert reply.content[0].text == "Hello"  # type: ignore[union-attr]
        with client.messages.stream(model="default", max_tokens=9, messages=messages) as stream:
            assert "".join(stream.text_stream) == "Hello"
            assert stream.get_final_message().stop_reason == "end_turn"
        count = client.messages.count_tokens(model="default", messages=messages)
        assert count.input_tokens == reply.usage.input_tokens + (
            reply.usage.cache_read_input_tokens or 0
        )
        assert [model.id for model in client.models.list()] == ["weights"]
        with pytest.raises(anthropic.BadRequestError, match="top_k"):
            client.messages.create(
                model="default",
                max_tokens=9,
                messages=messages,
                extra_body={"top_k": "x"},
            )
