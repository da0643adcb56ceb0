"""ChatGPT's archive, in the shapes that its users have met."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import foreign_exports as exports
from foreign_exports import gpt_chat, said, tree

from app.chat.replies.calls import answered_by, calls_of

Outline = Callable[[Any], list[str]]


def test_branches_reasoning_tools_citations_and_files_come(
    read: Any, outline: Outline, tmp_path: Path
) -> None:
    found = read(exports.gpt_archive(tmp_path / "export.zip"))
    chat = found.chat
    assert found.apps == ["ChatGPT"]
    assert outline(chat) == [
        "0 user: Weather?",
        "1 assistant: ",
        "2 tool: 4 °C",
        "3 assistant: It is 4 °C ([yr](https://yr.no)).",
        "4 user: And here?\n\n[Attached: talk.pdf]",
        "1 assistant: Cold.",
    ]
    question, called, result, reply, second, other = chat.messages
    assert called.reasoning == "**Plan**\n\nLook it up."
    assert [(c.id, c.name, c.arguments) for c in calls_of(called)] == [
        ("call", "web", '{"q": "Oslo"}')
    ]
    assert answered_by(result).id == "call"
    assert (reply.counts.reasoning_s, reply.weights_name, other.weights_name) == (7, "o3", "gpt-4o")
    assert question.created_at == datetime.fromtimestamp(exports.T0 + 1, UTC)
    assert reply.created_at == datetime.fromtimestamp(exports.T0 + 9, UTC)
    assert other.created_at == question.created_at  # it has none of its own
    assert chat.conversation.system_prompt == "I live in Oslo.\n\nBe brief."
    assert chat.conversation.is_pinned
    assert chat.conversation.active_leaf_id == second.id
    picture, notes = second.attachments
    assert (picture.kind, picture.details["media_type"]) == ("picture", "image/png")
    assert (notes.name, notes.text) == ("notes.txt", "Clouds.\n")
    assert found.files == [{picture.id: ("image/png", exports.PNG)}]
    assert found.missing == {"Files missing from the export (named in the messages)": 1}


HM = {"thoughts": [{"content": "Hm"}]}
TWO = {"text": "2"}
QUOTED = {"title": "T", "url": "u", "text": "x"}
QUIRKS: dict[str, tuple[Any, str | None, list[str]]] = {
    "no root, parts that are null or objects": (
        tree({"a": ("gone", said("user", None, {"text": "Hi"}, "there", None))}),
        "a",
        ["0 user: Hi\n\nthere"],
    ),
    "two roots": (
        tree({"a": (None, said("user", "One")), "b": (None, said("user", "Two"))}),
        "a",
        ["0 user: One", "0 user: Two"],
    ),
    "a circle, and nodes that are no objects": (
        tree({"a": ("b", said("user", "One")), "b": ("a", said("assistant", "Two"))}) | {"c": 7},
        "nowhere",
        ["0 user: One", "1 assistant: Two"],
    ),
    "its own parent": (tree({"a": ("a", said("user", "One"))}), None, ["0 user: One"]),
    "known by children alone": (
        {
            "a": {"message": said("user", "One"), "children": ["b", "c"]},
            "c": {"message": said("assistant", "Second"), "children": []},
            "b": {"message": said("assistant", "First"), "children": None},
        },
        "b",
        ["0 user: One", "1 assistant: First", "1 assistant: Second"],
    ),
    "stopped while it thought, and asked again": (
        tree(
            {
                "q": (None, said("user", "Why?")),
                "t": ("q", said("assistant", kind="thoughts", content=HM)),
                "q2": ("t", said("user", "Well?")),
            }
        ),
        "q2",
        ["0 user: Why?", "1 assistant: ", "2 user: Well?"],
    ),
    "code, its output and a quotation": (
        tree(
            {
                "q": (None, said("user", "Sum?")),
                "c": ("q", said("assistant", kind="code", to="python", content={"text": "1+1"})),
                "o": ("c", said("tool", name="python", kind="execution_output", content=TWO)),
                "w": ("o", said("tool", name="quote", kind="tether_quote", content=QUOTED)),
                "k": ("w", said("assistant", kind="code", content={"text": "a", "language": "sh"})),
            }
        ),
        "k",
        [
            "0 user: Sum?",
            "1 assistant: ",
            "2 tool: 2",
            "3 assistant: T · u\n\nx",  # a result of no call
            "4 assistant: ```sh\na\n```",
        ],
    ),
}  # fmt: skip


def test_quirks(read: Any, outline: Outline, tmp_path: Path) -> None:
    """All in one file, which is how they come."""
    chats = [gpt_chat(title, mapping, leaf) for title, (mapping, leaf, _) in QUIRKS.items()]
    path = tmp_path / "anything.json"
    path.write_text("\ufeff" + json.dumps(chats, indent=1).replace("\n", "\r\n"), encoding="utf-8")
    found = read(path)
    for chat in found.chats:
        assert outline(chat) == QUIRKS[chat.conversation.title][2], chat.conversation.title
        ids = {message.id for message in chat.messages}
        assert chat.conversation.active_leaf_id in ids
    assert len(found.chats) == len(QUIRKS)


def test_what_is_no_chat_is_listed(read: Any, tmp_path: Path) -> None:
    unknown = tree(
        {
            "a": (None, said("user", kind="hologram", content={"beam": 1})),
            "b": ("a", said("user", "x")),
        }
    )
    hidden = tree(
        {
            "a": (None, said("user", "Hello")),
            "b": ("a", said("tool", "secret", weight=0.0)),
            "c": ("b", said("critic", "x")),
        }
    )
    path = tmp_path / "conversations.json"
    chats = [
        gpt_chat("Unknown", unknown, "b"), gpt_chat("Hidden", hidden, "b"),
        gpt_chat("Empty", {}, None), 17, {"title": "Other", "mapping": None},
    ]  # fmt: skip
    path.write_text(json.dumps(chats))
    found = read(path)
    assert [chat.conversation.title for chat in found.chats] == ["Unknown", "Hidden"]
    assert found.missing == {
        "Messages of the kind “hologram”": 1,
        "Messages that ChatGPT hides": 1,
        "Messages by “critic”": 1,
        "Chats without a message": 1,
        "Entries that aren't chats": 2,
    }


def test_what_stands_before_an_end_that_is_too_early_comes(read: Any, tmp_path: Path) -> None:
    first = gpt_chat("First", tree({"a": (None, said("user", "One"))}), "a")
    second = gpt_chat(
        "Second",
        tree({"a": (None, said("user", "Two")), "b": ("a", said("assistant", "Three"))}),
        "b",
    )
    path = tmp_path / "conversations.json"
    text = json.dumps([first, second])
    path.write_text(text[: text.index("Three") - 20])
    found = read(path)
    assert [chat.conversation.title for chat in found.chats] == ["First", "Second"]
    assert [m.content for m in found.chats[1].messages] == ["Two"]
    assert found.missing == {"The file ends too early or is damaged here": 1}


def test_ids_are_the_same_each_time_and_split_files_are_one_archive(
    read: Any, tmp_path: Path
) -> None:
    one, two = (gpt_chat(t, tree({"a": (None, said("user", t))}), "a") for t in ("One", "Two"))
    split = {"conversations-000.json": [one], "conversations-001.json": [two]}
    first = read(exports.archive(tmp_path / "a.zip", split))
    again = read(exports.archive(tmp_path / "b.zip", {"x/conversations.json": [two, one]}))
    ids = [{m.id for chat in found.chats for m in chat.messages} for found in (first, again)]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 2


def test_a_title_behind_a_long_mapping_is_found(read: Any, tmp_path: Path) -> None:
    chat = exports.gpt_chat(
        "Late", exports.tree({"a": (None, exports.said("user", "x" * 99_999))}), "a"
    )
    title = chat.pop("title")
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{}, {**chat, "title": title}]))
    assert [each.conversation.title for each in read(path).chats] == ["Late"]
    path.write_text(json.dumps({"mapping": {"properties": {"id": {"type": "keyword"}}}}))
    assert not read(path).apps
