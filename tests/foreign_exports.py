"""Export files of other apps, as those write them, with the quirks that bug reports tell of.

The shapes are those of the apps' documents and of their users' reports; the texts are made up.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0\x1f\x15\xc4\x89\0\0\0\nIDATx\x9cc\0\1"
    b"\0\0\5\0\1\r\n-\xb4\0\0\0\0IEND\xaeB`\x82"
)
PICTURE = "data:image/png;base64," + base64.b64encode(PNG).decode()
T0 = 1_700_000_000.0


def archive(path: Path, members: dict[str, Any]) -> Path:
    """A ZIP; what is no text or bytes is written as JSON."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in members.items():
            data = value if isinstance(value, str | bytes) else json.dumps(value)
            file.writestr(name, data)
    return path


# --- ChatGPT ------------------------------------------------------------------------------------


def said(role: str, *parts: Any, kind: str = "text", **more: Any) -> dict[str, Any]:
    """A message of ChatGPT's."""
    content = {"content_type": kind, **({"parts": list(parts)} if parts else {})}
    content |= more.pop("content", {})
    about = more.pop("about", {})
    return {
        "author": {"role": role, "name": more.pop("name", None), "metadata": {}},
        "create_time": more.pop("at", T0),
        "content": content,
        "status": "finished_successfully",
        "weight": more.pop("weight", 1.0),
        "recipient": more.pop("to", "all"),
        "metadata": about,
    }


def tree(edges: dict[str, tuple[str | None, Any]]) -> dict[str, Any]:
    """A mapping of nodes: id → (parent, message)."""
    return {
        key: {
            "id": key,
            "parent": parent,
            "message": None if message is None else {"id": key} | message,
            "children": [other for other, (above, _) in edges.items() if above == key],
        }
        for key, (parent, message) in edges.items()
    }


def gpt_chat(title: str, mapping: Any, leaf: str | None, **more: Any) -> dict[str, Any]:
    chat_id = more.pop("id", f"chat-{title}")
    return {
        "title": title,
        "create_time": T0,
        "update_time": T0 + 60,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": leaf,
        "conversation_id": chat_id,
        "id": chat_id,
        "is_archived": False,
        **more,
    }


def gpt_branches() -> dict[str, Any]:
    """Two versions of a reply, the first one shown; reasoning, a tool, citations, a picture."""
    return gpt_chat(
        "Branches",
        tree(
            {
                "root": (None, None),
                "sys": (
                    "root",
                    said(
                        "system",
                        "",
                        weight=0.0,
                        about={"is_visually_hidden_from_conversation": True},
                    ),
                ),
                "me": (
                    "sys",
                    said(
                        "user",
                        kind="user_editable_context",
                        content={
                            "user_profile": "I live in Oslo.",
                            "user_instructions": "Be brief.",
                        },
                        about={"is_visually_hidden_from_conversation": True},
                    ),
                ),
                "q": ("me", said("user", "Weather?", at=T0 + 1)),
                "thoughts": (
                    "q",
                    said(
                        "assistant",
                        kind="thoughts",
                        content={"thoughts": [{"summary": "Plan", "content": "Look it up."}]},
                    ),
                ),
                "call": (
                    "thoughts",
                    said(
                        "assistant",
                        kind="code",
                        to="web",
                        content={"language": "unknown", "text": '{"q": "Oslo"}'},
                        about={"model_slug": "o3"},
                    ),
                ),
                "result": (
                    "call",
                    said(
                        "tool",
                        name="web",
                        kind="tether_browsing_display",
                        content={"result": "4 °C", "summary": None},
                    ),
                ),
                "recap": (
                    "result",
                    said(
                        "assistant",
                        kind="reasoning_recap",
                        content={"content": "Thought for 7 seconds"},
                        about={"finished_duration_sec": 7},
                    ),
                ),
                "a1": (
                    "recap",
                    said(
                        "assistant",
                        "It is 4 °C \ue200cite\ue202turn0search1\ue201.\ue200navlist\ue202x\ue201",
                        at=str(T0 + 9),
                        about={
                            "model_slug": "o3",
                            "content_references": [
                                {
                                    "matched_text": "\ue200cite\ue202turn0search1\ue201",
                                    "alt": "([yr](https://yr.no))",
                                }
                            ],
                        },
                    ),
                ),
                "a2": ("q", said("assistant", "Cold.", at=None, about={"model_slug": "gpt-4o"})),
                "q2": (
                    "a1",
                    said(
                        "user",
                        {
                            "content_type": "image_asset_pointer",
                            "asset_pointer": "file-service://file-Sky12345678",
                            "width": 1,
                            "height": 1,
                        },
                        "And here?",
                        kind="multimodal_text",
                        at=T0 + 20,
                        about={
                            "attachments": [
                                {
                                    "id": "file-Sky12345678",
                                    "name": "sky.png",
                                    "mime_type": "image/png",
                                },
                                {"id": "file-Notes1234567", "name": "notes.txt"},
                                {"id": "file-Gone12345678", "name": "talk.pdf"},
                            ]
                        },
                    ),
                ),
            }
        ),
        "q2",
        is_starred=True,
    )


def gpt_archive(path: Path, chats: list[Any] | None = None) -> Path:
    return archive(
        path,
        {
            "chat.html": "<html></html>",
            "user.json": {"id": "user-1", "email": "ada@example.org"},
            "message_feedback.json": [],
            "conversations.json": [gpt_branches()] if chats is None else chats,
            "file-Sky12345678-sky.png": PNG,
            "file-Notes1234567-notes.txt": "Clouds.\n",
        },
    )


# --- Claude -------------------------------------------------------------------------------------

ISO = "2024-05-01T10:0{}:00.000000+00:00"
NO_PARENT = "00000000-0000-4000-8000-000000000000"
UNSHOWN = "```\nThis block is not supported on your current device yet.\n```"


def claude_said(
    uuid: str, sender: str, *content: Any, parent: str | None = None, **more: Any
) -> dict[str, Any]:
    blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]
    about = {} if parent is None else {"parent_message_uuid": parent}
    return {
        "uuid": uuid,
        "text": more.pop("text", "".join(b.get("text", "") for b in blocks)),
        "content": more.pop("content", blocks),
        "sender": sender,
        "created_at": more.pop("at", ISO.format(1)),
        "updated_at": ISO.format(1),
        "attachments": [],
        "files": [],
        **about,
        **more,
    }


def claude_chat(name: str, messages: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "uuid": f"claude-{name}",
        "name": name,
        "summary": "",
        "created_at": ISO.format(0),
        "updated_at": ISO.format(5),
        "account": {"uuid": "acc"},
        "chat_messages": messages,
        **more,
    }


def claude_branches() -> dict[str, Any]:
    """An edited question (two branches), thinking, a tool between two texts, an attached text."""
    return claude_chat(
        "Branches",
        [
            claude_said(
                "q",
                "human",
                "Read it.",
                parent=NO_PARENT,
                attachments=[
                    {"file_name": "a.txt", "file_size": 3, "extracted_content": "One\r\n"}
                ],
                files=[{"file_name": "a.txt"}, {"file_name": "photo.jpg"}],
            ),
            claude_said(
                "a",
                "assistant",
                {
                    "type": "thinking",
                    "thinking": "Hm.",
                    "start_timestamp": ISO.format(1),
                    "stop_timestamp": ISO.format(2),
                },
                "Let me look.",
                {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "one"}},
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "name": "search",
                    "content": [{"type": "text", "text": "1"}, {"type": "image", "file": "x"}],
                },
                {"type": "token_budget"},
                UNSHOWN,
                "It is one.",
                parent="q",
            ),
            claude_said("q2", "human", "And two?", parent="a"),
            claude_said("q3", "human", "And three?", parent="a", at=ISO.format(4)),
        ],
        current_leaf_message_uuid="q2",
        project={"uuid": "p1", "name": "Numbers"},
    )


# --- LM Studio ----------------------------------------------------------------------------------


def lm_user(*texts: str, chosen: int = 0, **part: Any) -> dict[str, Any]:
    return {
        "versions": [
            {
                "type": "singleStep",
                "role": "user",
                "content": [{"type": "text", "text": text}, *([part] if part else [])],
            }
            for text in texts
        ],
        "currentlySelected": chosen,
    }


def lm_block(*content: Any, **style: Any) -> dict[str, Any]:
    return {
        "type": "contentBlock",
        "stepIdentifier": "1",
        "content": [
            {"type": "text", "text": each, "fromDraftModel": False}
            if isinstance(each, str)
            else each
            for each in content
        ],
        "defaultShouldIncludeInContext": True,
        "genInfo": {"indexedModelIdentifier": "pub/repo/file.gguf", "identifier": "qwen3-8b"},
        **({"style": style} if style else {}),
    }


def lm_reply(*versions: list[Any], chosen: int = 0) -> dict[str, Any]:
    return {
        "versions": [
            {
                "type": "multiStep",
                "role": "assistant",
                "senderInfo": {"senderName": "qwen3"},
                "steps": steps,
            }
            for steps in versions
        ],
        "currentlySelected": chosen,
    }


def lm_chat(name: str, messages: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "pinned": True,
        "createdAt": int(T0 * 1000),
        "preset": "",
        "tokenCount": 12,
        "systemPrompt": "Be kind.",
        "messages": messages,
        "usePerChatPredictionConfig": True,
        "perChatPredictionConfig": {"fields": []},
        "lastUsedModel": {"identifier": "qwen3-8b"},
        **more,
    }


def lm_folder(folder: Path) -> Path:
    inner = folder / "conversations" / "Work" / "Old"
    inner.mkdir(parents=True)
    (folder / "user-files").mkdir()
    (folder / "user-files" / "17.png").write_bytes(PNG)
    chat = lm_chat(
        "Versions",
        [
            lm_user("Hi", type="file", fileIdentifier="17.png", fileType="image"),
            lm_reply(
                [
                    lm_block("<think>Hm.</think>", type="thinking", ended=True),
                    lm_block("Hello."),
                    {"type": "debugInfoBlock", "debugInfo": "x"},
                ],
                [lm_block("<think>\nSo.\n</think>\n\nGood day.")],
                chosen=1,
            ),
            lm_user("Time?"),
            lm_reply(
                [
                    lm_block(
                        {
                            "type": "toolCallRequest",
                            "callId": 3,
                            "name": "clock",
                            "parameters": {"z": 1},
                        }
                    ),
                    lm_block(
                        {
                            "type": "toolCallResult",
                            "callId": 3,
                            "content": '"[{\\"type\\":\\"text\\"}]"',
                        }
                    ),
                    lm_block("Noon."),
                ]
            ),
        ],
    )
    (inner / "1.conversation.json").write_text(json.dumps(chat))
    flat = lm_chat("Flat", [lm_user("x", "x")], createdAt=None)
    (folder / "conversations" / "2.conversation.json").write_text(json.dumps(flat))
    return folder


# --- Jan ----------------------------------------------------------------------------------------


def jan_said(key: str, role: str, text: Any, at: int, **about: Any) -> dict[str, Any]:
    parts = [{"type": "text", "text": {"value": text, "annotations": []}}]
    return {
        "id": key,
        "object": "thread.message",
        "thread_id": "t1",
        "role": role,
        "content": parts if isinstance(text, str) else text,
        "status": "ready",
        "created_at": at,
        "metadata": about,
    }


def jan_folder(folder: Path) -> Path:
    thread = folder / "threads" / "t1"
    thread.mkdir(parents=True)
    (thread / "thread.json").write_text(
        json.dumps(
            {
                "id": "t1",
                "object": "thread",
                "title": "Clock",
                "assistants": [
                    {
                        "assistant_id": "jan",
                        "instructions": "Be exact.",
                        "model": {"id": "qwen3-4b"},
                    }
                ],
                "created": int(T0),
                "updated": int(T0 * 1000) + 5000,
                "metadata": {},
            }
        )
    )
    call = {
        "tool": {"id": "c1", "function": {"name": "clock", "arguments": '{"zone": "CET"}'}},
        "response": {"content": [{"type": "text", "text": "12:00"}]},
        "state": "ready",
    }
    lines = [  # the newest first, as some releases write it
        jan_said("m3", "assistant", [], int(T0) + 3, tool_calls=[call]),
        jan_said("m2", "assistant", "<think>Well</think>Hello.", int(T0) + 2),
        jan_said(
            "m1",
            "user",
            [
                {"type": "text", "text": {"value": "Hi"}},
                {"type": "image_url", "image_url": {"url": PICTURE}},
            ],
            int(T0) + 1,
        ),
    ]
    text = "\r\n".join(map(json.dumps, lines)) + "\r\n{broken\r\n"
    (thread / "messages.jsonl").write_text(text, newline="")
    return folder


# --- Open WebUI ---------------------------------------------------------------------------------

REASONED = (
    '<details type="reasoning" done="true" duration="3">\n<summary>Thought</summary>\n'
    "> First line\n> Second\n</details>\n"
)
CALLED = (
    '<details type="tool_calls" done="true" id="call_1" name="weather" '
    'arguments="&quot;{\\&quot;city\\&quot;: \\&quot;Oslo\\&quot;}&quot;" '
    'result="&quot;4 °C&quot;" files="">\n<summary>Tool Executed</summary>\n</details>\n'
)


def webui_said(
    key: str, parent: str | None, role: str, content: Any, *children: str, **more: Any
) -> dict[str, Any]:
    return {
        "id": key,
        "parentId": parent,
        "childrenIds": list(children),
        "role": role,
        "content": content,
        "timestamp": int(T0),
        **more,
    }


def webui_chat(title: str, messages: list[Any], current: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"webui-{title}",
        "user_id": "u",
        "title": title,
        "chat": {
            "title": title,
            "models": ["llama3"],
            "params": {"system": "Be calm."},
            "history": {"messages": {each["id"]: each for each in messages}, "currentId": current},
            "messages": [],
            "tags": [],
            "timestamp": int(T0 * 1000),
        },
        "created_at": int(T0),
        "updated_at": int(T0) + 9,
        "archived": True,
        "pinned": True,
        "meta": {"tags": ["travel"]},
        "folder_id": None,
        **more,
    }


def webui_branches() -> dict[str, Any]:
    """Two models' replies beside each other; reasoning and a tool in one of them."""
    text_file = {
        "type": "file",
        "name": "a.md",
        "file": {"filename": "a.md", "data": {"content": "# A"}},
    }
    return webui_chat(
        "Weather",
        [
            webui_said(
                "q",
                None,
                "user",
                "Oslo?",
                "a",
                "b",
                files=[text_file, {"type": "image", "url": "/x"}],
            ),
            webui_said(
                "a",
                "q",
                "assistant",
                f"{REASONED}{CALLED}It is 4 °C.\n<details><summary>More</summary>x</details>",
                "q2",
                model="llama3",
                modelName="Llama 3",
                sources=[{"source": {}}],
            ),
            webui_said("b", "q", "assistant", "", model="phi", error={"content": "Out of memory"}),
            webui_said("c", "q", "assistant", "Here.", files=[{"type": "image", "url": PICTURE}]),
            webui_said("q2", "a", "user", "Thanks"),
        ],
        "a",
    )


def webui_database(path: Path, chats: list[dict[str, Any]]) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE user (id TEXT)")
        database.execute("CREATE TABLE folder (id TEXT, parent_id TEXT, name TEXT)")
        database.execute("INSERT INTO folder VALUES ('f1', NULL, 'Trips'), ('f2', 'f1', 'North')")
        database.execute(
            "CREATE TABLE chat (id TEXT, user_id TEXT, title TEXT, chat JSON, created_at BIGINT,"
            " updated_at BIGINT, archived BOOLEAN, pinned BOOLEAN, meta JSON, folder_id TEXT)"
        )
        for each in chats:
            names = ("id", "user_id", "title", "created_at", "updated_at", "archived", "pinned")
            row = {name: each[name] for name in (*names, "folder_id")}
            row |= {name: json.dumps(each[name]) for name in ("meta", "chat")}
            database.execute(
                "INSERT INTO chat VALUES (:id, :user_id, :title, :chat, :created_at, :updated_at,"
                " :archived, :pinned, :meta, :folder_id)",
                row,
            )
        database.commit()
    return path
