"""Training lines against written schemas, and what they keep of a chat."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
from exported_chats import CALL, message, rich_chat

from app.chat.exchange import training
from app.chat.exchange.choices import Choices
from app.chat.replies.calls import as_answer, with_calls
from app.engine.protocol.tool_messages import ToolCall
from models.records import ConversationKind, MessageState, Role

TEXT = {"type": "string"}
PART = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"type": {"const": "text"}, "text": TEXT},
            "required": ["type", "text"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "type": {"const": "image_url"},
                "image_url": {
                    "type": "object",
                    "properties": {"url": {"type": "string", "pattern": "^data:image/"}},
                    "required": ["url"],
                },
            },
            "required": ["type", "image_url"],
            "additionalProperties": False,
        },
    ]
}
FUNCTION = {
    "type": "object",
    "properties": {"name": TEXT, "arguments": TEXT},
    "required": ["name", "arguments"],
    "additionalProperties": False,
}
CALLED = {
    "type": "object",
    "properties": {"id": TEXT, "type": {"const": "function"}, "function": FUNCTION},
    "required": ["id", "type", "function"],
    "additionalProperties": False,
}
MESSAGES = {
    "type": "object",
    "properties": {
        "messages": {
            "type": "array",
            "minItems": 2,
            "items": {
                "type": "object",
                "properties": {
                    "role": {"enum": ["system", "user", "assistant", "tool"]},
                    "content": {"oneOf": [TEXT, {"type": "array", "items": PART}]},
                    "reasoning_content": TEXT,
                    "tool_calls": {"type": "array", "minItems": 1, "items": CALLED},
                    "tool_call_id": TEXT,
                    "name": TEXT,
                },
                "required": ["role", "content"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["messages"],
    "additionalProperties": False,
}
SHAREGPT = {
    "type": "object",
    "properties": {
        "conversations": {
            "type": "array",
            "minItems": 2,
            "items": {
                "type": "object",
                "properties": {
                    "from": {"enum": ["system", "human", "gpt", "function_call", "observation"]},
                    "value": TEXT,
                },
                "required": ["from", "value"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["conversations"],
    "additionalProperties": False,
}


def lines(chat: Any = None, **options: Any) -> list[Any]:
    made = list(training.lines(chat or rich_chat(), Choices("training", **options)))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in made)
    return [json.loads(line) for line in made]


def test_messages_fit_their_schema_and_end_with_a_reply() -> None:
    (line,) = lines()
    jsonschema.validate(line, MESSAGES)
    told = line["messages"]
    assert [each["role"] for each in told] == [
        *("system", "user", "assistant", "user", "assistant", "tool", "assistant")
    ]
    picture, text = told[1]["content"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")
    assert "paper.pdf" in text["text"]
    assert text["text"].endswith("<b>Twice</b>")
    assert told[2]["reasoning_content"] == "I **think** of $x$."
    assert told[2]["content"] == rich_chat().whole.messages[1].content, "as it is stored"
    assert told[4]["tool_calls"][0]["function"] == {"name": "look_up", "arguments": CALL.arguments}
    assert told[5] == {
        "role": "tool",
        "content": "[2, 3, 5]",
        "tool_call_id": "call_1",
        "name": "look_up",
    }


def test_sharegpt_fits_its_schema() -> None:
    (line,) = lines(shape="sharegpt", system=False)
    jsonschema.validate(line, SHAREGPT)
    told = [(each["from"], each["value"]) for each in line["conversations"]]
    assert [name for name, _ in told] == [
        *("human", "gpt", "human", "function_call", "observation", "gpt")
    ]
    assert told[1][1].startswith("<think>\nI **think** of $x$.\n</think>\n\n# Prime")
    assert json.loads(told[3][1]) == {"name": "look_up", "arguments": {"n": 30}}
    (plain,) = lines(shape="sharegpt", reasoning=False)
    assert not any("<think>" in each["value"] for each in plain["conversations"])


def test_sides_take_turns_whatever_the_chat_is() -> None:
    """As LLaMA-Factory's converters ask for it: it leaves out every other chat."""
    two = (CALL, ToolCall("call_2", "look_up", '{"n": 40}'))
    chat = rich_chat()
    picture = chat.whole.messages[0].attachments[:1]
    messages = (
        message(1, Role.ASSISTANT, "Welcome.", None),
        message(2, Role.USER, "First?", 1, attachments=picture),
        message(3, Role.ASSISTANT, "", 2, state=MessageState.FAILED),
        message(4, Role.USER, "Second?", 3),
        message(5, Role.ASSISTANT, "I look.", 4, settings=with_calls({}, two), reasoning="Hm."),
        message(6, Role.TOOL, "[2]", 5, settings=dict(as_answer(two[0]))),
        message(7, Role.TOOL, "[3]", 5, settings=dict(as_answer(two[1]))),
        message(8, Role.ASSISTANT, "Both.", 7),
    )
    messages = tuple(
        replace(each, parent_id=f"m{n}" if n else None) for n, each in enumerate(messages)
    )
    conversation = replace(chat.conversation, active_leaf_id="m8")
    chat.whole = replace(chat.whole, conversation=conversation, messages=messages)
    (line,) = lines(chat, shape="sharegpt")
    jsonschema.validate(line, SHAREGPT)
    told = [(each["from"], each["value"]) for each in line["conversations"][1:]]
    calls = [{"name": "look_up", "arguments": {"n": n}} for n in (30, 40)]
    assert told == [
        ("human", ""),
        ("gpt", "Welcome."),
        ("human", "First?\n\nSecond?"),
        ("function_call", f"<think>\nHm.\n</think>\n\n{json.dumps(calls)}"),
        ("observation", json.dumps(["[2]", "[3]"])),
        ("gpt", "Both."),
    ]
    (line,) = lines(chat, system=False)
    jsonschema.validate(line, MESSAGES)
    told = line["messages"]
    assert [each["role"] for each in told] == [
        *("assistant", "user", "assistant", "tool", "tool", "assistant")
    ]
    assert [part["type"] for part in told[1]["content"]] == ["image_url", "text", "text"]
    assert told[2]["content"] == "I look."


def test_every_path_is_a_line_of_its_own_once() -> None:
    made = lines(branches=True, system=False)
    assert [len(line["messages"]) for line in made] == [6, 2]
    assert made[1]["messages"][1]["content"] == "Numbers with two divisors."
    for line in made:
        jsonschema.validate(line, MESSAGES)


def test_what_is_no_whole_reply_ends_no_line() -> None:
    chat = rich_chat()
    cut = message(11, Role.ASSISTANT, "It w", 7, state=MessageState.INTERRUPTED)
    open_call = message(12, Role.ASSISTANT, "I look.", 7, settings=chat.whole.messages[3].settings)
    for last in (cut, open_call):
        messages = (*chat.whole.messages, last)
        conversation = replace(chat.conversation, active_leaf_id=last.id)
        chat.whole = replace(chat.whole, conversation=conversation, messages=messages)
        (line,) = lines(chat)
        assert line["messages"][-1]["content"] == "Ten of them."
    chat.whole = replace(chat.whole, messages=chat.whole.messages[:1])
    assert lines(chat) == []
    text = rich_chat()
    kind = replace(text.conversation, kind=ConversationKind.TEXT)
    text.whole = replace(text.whole, conversation=kind)
    assert lines(text) == []
