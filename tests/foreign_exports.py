"""Export files of other apps, as those write them, with the quirks that bug reports tell of.

The shapes are those of the apps' documents and of their users' reports; the texts are made up.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0\x1f\x15\xc4\x89\0\0\0\nIDATx\x9cc\0\1"
    b"\0\0\5\0\1\r\n-\xb4\0\0\0\0IEND\xaeB`\x82"
)
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
