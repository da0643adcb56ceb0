"""Claude, LM Studio, Jan, Open WebUI: their files, in the shapes that their users have met."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import foreign_exports as exports
from foreign_exports import claude_chat, claude_said, webui_chat, webui_said

from app.chat.replies.calls import answered_by, calls_of
from models.records import Folder, MessageState

Outline = Callable[[Any], list[str]]
MISSING = "Files missing from the export (named in the messages)"


def contents(chat: Any, leaf: bool = False) -> str:
    at = {message.id: message.content for message in chat.messages}
    return str(at[chat.conversation.active_leaf_id])


def test_claude(read: Any, outline: Outline, tmp_path: Path) -> None:
    plain = claude_chat(
        "",
        [
            claude_said("m1", "human", text="Old", content=[], at=None),
            None,
            claude_said("m2", "assistant", text="Reply", content="Reply", at="yesterday"),
            claude_said("m3", "human", "Lost", parent="never"),
            claude_said("m4", "critic", "x"),
        ],
    )
    project = {
        "uuid": "p1",
        "name": "Numbers",
        "prompt_template": "Count.",
        "docs": [{"filename": "d"}],
        "created_at": exports.ISO.format(0),
    }
    unused = {"uuid": "p2", "name": "Unused", "prompt_template": "Do.", "docs": []}
    found = read(
        exports.archive(
            tmp_path / "data-2025.zip",
            {
                "users.json": [{"uuid": "u", "full_name": "Ada", "email_address": "a@example.org"}],
                "conversations.json": [exports.claude_branches(), plain, claude_chat("None", [])],
                "projects.json": [project, unused],
            },
        )
    )
    assert found.apps == ["Claude"]
    first, second = found.chats
    assert outline(first) == [
        "0 user: Read it.\n\n[Attached: photo.jpg]",
        "1 assistant: Let me look.",
        "2 tool: 1",
        "3 assistant: It is one.",
        "4 user: And two?",
        "4 user: And three?",
    ]
    assert contents(first) == "And two?"
    question, looked, result, *_ = first.messages
    assert (looked.reasoning, looked.counts.reasoning_s) == ("Hm.", 60)
    assert [(c.id, c.name, c.arguments) for c in calls_of(looked)] == [
        ("t1", "search", '{"q": "one"}')
    ]
    assert answered_by(result).id == "t1"
    assert [(a.name, a.text) for a in question.attachments] == [("a.txt", "One\n")]
    (folder,) = (each for each in found.all if isinstance(each, Folder))
    assert (folder.name, folder.id) == ("Numbers", first.conversation.folder_id)
    assert first.conversation.system_prompt == "Count."
    assert outline(second) == ["0 user: Old", "1 assistant: Reply", "2 user: Lost"]
    assert second.conversation.title == "Old"  # it has none
    assert {m.created_at for m in second.messages[:2]} == {second.conversation.created_at}
    assert found.missing == {
        MISSING: 1,
        "Results of the kind “image”": 1,
        "Documents of projects": 1,
        "Messages by “critic”": 1,
        "Chats without a message": 1,
        "Projects without chats in the export: their documents and instructions": 1,
    }


def test_lm_studio(read: Any, outline: Outline, tmp_path: Path) -> None:
    found = read(exports.lm_folder(tmp_path / "lmstudio"))
    assert found.apps == ["LM Studio"]
    flat, chat = found.chats
    assert outline(chat) == [
        "0 user: Hi",
        "1 assistant: Hello.",
        "1 assistant: Good day.",
        "2 user: Time?",
        "3 assistant: ",
        '4 tool: [{"type":"text"}]',
        "5 assistant: Noon.",
    ]
    assert flat.conversation.created_at.year >= 2026  # its file's, since it tells none
    assert outline(flat) == ["0 user: x", "0 user: x"]
    first, second = chat.messages[1:3]
    assert (first.reasoning, second.reasoning) == ("Hm.", "So.")
    assert {m.weights_name for m in chat.messages if m.role == "assistant"} == {"qwen3-8b"}
    assert chat.conversation.created_at == datetime.fromtimestamp(exports.T0, UTC)
    assert (chat.conversation.system_prompt, chat.conversation.is_pinned) == ("Be kind.", True)
    assert contents(chat) == "Noon."
    work, old = (each for each in found.all if isinstance(each, Folder))
    assert (work.name, old.name, old.parent_id) == ("Work", "Old", work.id)
    assert chat.conversation.folder_id == old.id
    assert [file[0] for file in found.files[1].values()] == ["image/png"]
    assert found.missing == {}


def test_jan(read: Any, outline: Outline, tmp_path: Path) -> None:
    found = read(exports.jan_folder(tmp_path / "jan"))
    assert found.apps == ["Jan"]
    assert outline(found.chat) == [
        "0 user: Hi",
        "1 assistant: Hello.",
        "2 assistant: ",
        "3 tool: 12:00",
    ]
    question, reply, called, result = found.chat.messages
    assert question.created_at == datetime.fromtimestamp(exports.T0 + 1, UTC)
    assert (reply.reasoning, reply.weights_name) == ("Well", "qwen3-4b")
    assert calls_of(called)[0].arguments == '{"zone": "CET"}'
    assert answered_by(result).id == "c1"
    assert list(found.files[0].values()) == [("image/png", exports.PNG)]
    c = found.chat.conversation
    assert (c.title, c.system_prompt) == ("Clock", "Be exact.")
    assert c.updated_at == datetime.fromtimestamp(exports.T0 + 5, UTC)
    assert found.missing == {"Lines of messages.jsonl that can't be read": 1}


def test_open_webui(read: Any, outline: Outline, tmp_path: Path) -> None:
    circle = webui_chat(
        "Circle",
        [webui_said("a", "b", "user", "A"), webui_said("b", "a", "assistant", None, done=False)],
        "gone",
    )
    old = {
        "title": "Old",
        "chat": {"title": "Old", "messages": [{"role": "user", "content": "Hi"}]},
    }
    path = tmp_path / "export.json"
    path.write_text(json.dumps([exports.webui_branches(), circle, old, {"chat": {}}]))
    found = read(path)
    assert found.apps == ["Open WebUI"]
    chat = found.chats[0]
    rest = "It is 4 °C.\n<details><summary>More</summary>x</details>"
    assert outline(chat) == [
        "0 user: Oslo?\n\n[Attached: Picture]",
        "1 assistant: ",
        "2 tool: 4 °C",
        f"3 assistant: {rest}",
        "4 user: Thanks",
        "1 assistant: ",
        "1 assistant: Here.",
        "2 tool: Picture",
    ]
    called, failed, made = chat.messages[1], chat.messages[-3], chat.messages[-1]
    assert found.files[0] == {made.attachments[0].id: ("image/png", exports.PNG)}
    assert answered_by(made).id == calls_of(chat.messages[-2])[0].id
    assert (called.reasoning, called.counts.reasoning_s) == ("First line\nSecond", 3)
    assert calls_of(called)[0].arguments == '{"city": "Oslo"}'
    assert (failed.state, failed.error) == (MessageState.FAILED, "Out of memory")
    assert (chat.messages[3].weights_name, failed.weights_name) == ("Llama 3", "phi")
    assert contents(chat) == rest
    c = chat.conversation
    assert (c.system_prompt, c.tags, c.is_archived, c.is_pinned) == (
        "Be calm.",
        ("travel",),
        True,
        True,
    )
    assert [(a.name, a.text) for a in chat.messages[0].attachments] == [("a.md", "# A")]
    assert [outline(each) for each in found.chats[1:]] == [["0 user: A"], ["0 user: Hi"]]
    assert found.missing == {
        MISSING: 1,
        "Sources that replies cite": 1,
        "Chats without a message": 1,
    }


def test_open_webuis_database_is_read_and_nothing_else(read: Any, tmp_path: Path) -> None:
    chats = [exports.webui_branches() | {"folder_id": "f2"}, webui_chat("Broken", [], "x")]
    path = exports.webui_database(tmp_path / "webui.db", chats)
    before = path.read_bytes()
    found = read(path)
    again = tmp_path / "export.json"
    again.write_text(json.dumps(chats))
    assert [m.id for m in found.chat.messages] == [m.id for m in read(again).chat.messages]
    trips, north = (each for each in found.all if isinstance(each, Folder))
    assert (trips.name, north.parent_id) == ("Trips", trips.id)
    assert found.chat.conversation.folder_id == north.id
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["export.json", "webui.db"]
    path.write_bytes(before[: 3 * 4096] + b"\xff" * (len(before) - 3 * 4096))
    assert "damaged" in " ".join(read(path).missing)
