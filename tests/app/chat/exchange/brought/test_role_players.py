"""SillyTavern, character cards, text-generation-webui, KoboldCpp, in the shapes that they write."""

from __future__ import annotations

import base64
import io
import json
import os
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import foreign_exports as exports
import pytest
import yaml
from each import each
from role_player_exports import (
    ANSWER,
    CARD,
    CHARACTER,
    GREETING,
    HEADER,
    HIDDEN,
    NARRATED,
    PNG,
    QUESTION,
    SESSION,
    WEBUI_LOG,
)

from app.chat.exchange.brought import cards, kobold
from app.chat.exchange.brought.cards import card_chunk
from app.chat.exchange.brought.places import opened_place
from app.chat.exchange.brought.silly_tavern import tavern_time
from app.chat.exchange.recognising import is_import
from models.records import ConversationKind

Outline = Callable[[Any], list[str]]


def json_lines(path: Path, *values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values)
    path.write_text("\r\n".join(texts), "utf-8")
    return path


def told(chat: Any, content: str) -> Any:
    return next(message for message in chat.messages if message.content == content)


def test_a_chat_of_silly_tavern(read: Any, outline: Outline, tmp_path: Path) -> None:
    last = {"name": "Ada", "is_user": True, "mes": "", "extra": {"image": "/user/images/cat.png"}}
    path = json_lines(
        tmp_path / "chats" / "Seraphina" / "Seraphina - 2023.jsonl",
        *(HEADER, GREETING, QUESTION, ANSWER, HIDDEN, NARRATED, last, "{broken", "", "7"),
    )
    found = read(tmp_path / "chats")
    assert found.apps == ["SillyTavern"]
    assert outline(found.chat) == [
        "0 assistant: Welcome, edited.",
        "1 user: Hi",
        "2 assistant: Nothing",
        "2 assistant: Hello",
        "3 tool: Picture",
        "4 assistant: Aside",
        "5 system: Night.",
        "6 user: [Attached: cat.png]",
        "0 assistant: Hail.",
    ]
    answer = told(found.chat, "Hello")
    assert (answer.reasoning, answer.counts.reasoning_s) == ("Think.\n\nHm.", 1.5)
    assert (answer.author, answer.weights_name) == ("Seraphina", "m-2")
    assert [each.kind for each in told(found.chat, "Picture").attachments] == ["picture"]
    assert answer.created_at == datetime(2023, 11, 4, 22, 1, 2, 3000, UTC)
    assert told(found.chat, "Hail.").weights_name == "m-1"
    assert told(found.chat, "Hi").author == ""
    leaf = found.chat.conversation.active_leaf_id
    assert told(found.chat, "[Attached: cat.png]").id == leaf
    assert found.chat.conversation.title == "Seraphina - 2023"
    assert found.missing == {
        "Author's notes": 1,
        "Messages hidden from the prompt: as ordinary ones": 1,
        "Lines that can't be read": 2,
        "Files missing from the export (named in the messages)": 1,
    }
    alone = read(path).chat
    assert [message.id for message in alone.messages] == [m.id for m in found.chat.messages]


def test_no_version_is_lost_where_nobody_says_which_is_shown(
    read: Any, outline: Outline, tmp_path: Path
) -> None:
    first = {"name": "Bob", "is_user": False, "mes": "A", "swipes": ["A", "B"]}
    edited = {"name": "Bob", "is_user": False, "mes": "edited", "swipes": ["C", None, "D"]}
    unused = {"user_name": "unused", "character_name": "unused", "chat_metadata": {}}
    for number, name in enumerate(("Bob", "Eve")):
        greeting = first | {"name": name}
        json_lines(tmp_path / name / "chat.jsonl", unused, greeting, *[edited] * (1 - number))
    found = read(tmp_path)
    assert [outline(chat) for chat in found.chats] == [
        [
            *("0 assistant: A", "1 assistant: C", "1 assistant: D", "1 assistant: edited"),
            "0 assistant: B",
        ],
        ["0 assistant: A", "0 assistant: B"],
    ]
    assert len({chat.conversation.id for chat in found.chats}) == 2
    leaf = found.chats[0].conversation.active_leaf_id
    assert told(found.chats[0], "edited").id == leaf
    log = {"internal": [["a", "B"]], "visible": [], "metadata": {
        "assistant_0": {"versions": [{"content": "A"}, {"content": "C"}]}}}  # fmt: skip
    (tmp_path / "log.json").write_text(json.dumps(log))
    texts = [message.content for message in read(tmp_path / "log.json").chat.messages]
    assert texts == ["a", "A", "C", "B"]


def test_an_old_group_has_no_first_line(read: Any, outline: Outline, tmp_path: Path) -> None:
    other = {"name": "Bob", "is_user": False, "mes": "Yo", "send_date": "never", "swipes": None}
    group = json_lines(tmp_path / "group chats" / "2023-11-4.jsonl", QUESTION, other)
    chat = read(group).chat
    assert outline(chat) == ["0 user: Hi", "1 assistant: Yo"]
    assert [message.author for message in chat.messages] == ["", "Bob"]
    assert chat.messages[1].created_at == chat.messages[0].created_at


def test_times_as_silly_tavern_has_written_them() -> None:
    def is_read(written: Any, wanted: str) -> None:
        assert str(tavern_time(written)).removesuffix("+00:00") == wanted

    each(
        is_read,
        [
            ("2024-1-2@3h4m5s", "2024-01-02 03:04:05"),
            ("2024-1-2 @3h 04m", "2024-01-02 03:04:00"),
            ("June 1, 2024 12:05am", "2024-06-01 00:05:00"),
            ("June 1, 2024 12:05 PM", "2024-06-01 12:05:00"),
            ("Juno 1, 2024 13:99pm", "None"),
            ("2024-13-2@3h4m5s", "None"),
            (1700000000, "2023-11-14 22:13:20"),
            ("1700000000000", "2023-11-14 22:13:20"),
            ("2024-01-02T03:04:05.006Z", "2024-01-02 03:04:05.006000"),
            ("x" * 10_000, "None"),
            (None, "None"),
        ],
    )


PROMPT = """Stay in role.

Seraphina guards the glade of User.

Personality:
kind

Examples of what is said:
<START>
Seraphina: Rest."""


def chunk(kind: bytes, body: bytes) -> bytes:
    checked = kind + body
    return struct.pack(">I", len(body)) + checked + struct.pack(">I", zlib.crc32(checked))


def pictured(*chunks: bytes) -> bytes:
    return PNG + chunk(b"IHDR", bytes(13)) + b"".join(chunks) + chunk(b"IEND", b"")


def as_text(keyword: bytes, card: Any) -> bytes:
    return keyword + b"\0" + base64.b64encode(json.dumps(card).encode())


def test_a_card_is_a_chat_with_its_system_prompt(
    read: Any, outline: Outline, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(CARD))
    found = read(tmp_path / "a.json")
    assert found.apps == ["Character cards"]
    assert found.chat.conversation.system_prompt == PROMPT
    assert found.chat.conversation.tags == ("Fantasy",)
    assert outline(found.chat) == ["0 assistant: Welcome, User.", "0 assistant: Hail."]
    assert found.chat.messages[0].author == "Seraphina"
    assert found.chat.conversation.active_leaf_id == found.chat.messages[0].id
    assert found.missing == {"Entries of lorebooks": 2}
    old = {"name": "Bob", "description": "A smith.", "first_mes": "", "scenario": "A forge."}
    (tmp_path / "b.json").write_text(json.dumps(old))
    chat = read(tmp_path / "b.json").chat
    assert (chat.messages, chat.conversation.title) == ((), "Bob")
    assert chat.conversation.system_prompt == "A smith.\n\nScenario:\nA forge."


def test_older_characters_are_cards(read: Any, outline: Outline, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(CHARACTER))
    chat = read(tmp_path / "a.yaml").chat
    assert outline(chat) == ["0 assistant: *strides in* Hey, User!"]
    assert chat.conversation.system_prompt == (
        "Chiharu's persona: an engineer.\nUser: Hi\n\nExamples of what is said:\nChiharu: 1 < 2."
    )
    old = {"char_name": "Bob", "char_persona": "A smith.", "char_greeting": "Yo", "example": 1}
    (tmp_path / "b.json").write_text(json.dumps(old))
    assert outline(read(tmp_path / "b.json").chat) == ["0 assistant: Yo"]
    config = tmp_path / "compose.yml"
    config.write_text("name: app\nservices: {}\n")
    (tmp_path / "note.md").write_text("name: x\ncontext: y\n")
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: [\ncontext: *no\n")
    assert read(bad).missing == {"Character cards that can't be read": 1}
    assert [is_import(str(tmp_path / name)) for name in ("a.yaml", "compose.yml", "note.md")] == [
        *(True, False, False),
    ]


def test_fields_are_bounded_before_names_are_filled_in(
    read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "MAX_FIELD", 800)
    card = {"name": "N" * 500, "description": "", "first_mes": "{{char}}" * 1000}
    (tmp_path / "a.json").write_text(json.dumps(card))
    found = read(tmp_path / "a.json")
    assert len(found.chat.messages[0].content) == 100 * cards.LONGEST_NAME
    assert found.missing == {"The rest of fields longer than 800 characters": 1}


def test_a_session_of_nothing_but_marks_is_bounded(
    read: Any, outline: Outline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kobold, "MAX_TURNS", 3)
    assert outline(read(session(tmp_path, prompt="{{[INPUT]}}x" * 5)).chat) == [
        *("0 user: x", "1 user: x", "2 user: x{{[INPUT]}}x{{[INPUT]}}x"),
    ]


def test_pictures_beside_chats_are_not_unpacked_for_a_card(read: Any, tmp_path: Path) -> None:
    card = pictured(chunk(b"tEXt", as_text(b"chara", CARD)))
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("conversations.json", json.dumps([exports.gpt_branches()]))
        file.writestr("made.png", card)
    assert read(path).apps == ["ChatGPT"]
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("characters/Seraphina.png", card)
    assert read(path).apps == ["ChatGPT", "Character cards"]


def test_a_card_behind_a_large_picture_is_found_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    body = chunk(b"IDAT", bytes(3_000_000))
    path.write_bytes(pictured(body, chunk(b"tEXt", as_text(b"chara", CARD))))
    with opened_place(path) as place, place.open(place.entries[0].name) as file:
        tracemalloc.start()
        assert card_chunk(file)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        tracemalloc.stop()


def test_a_card_in_a_picture(read: Any, tmp_path: Path) -> None:
    newer = CARD | {"spec": "chara_card_v3"}
    older = {"name": "Old", "description": "x", "first_mes": "y"}
    path = tmp_path / "card.png"
    path.write_bytes(
        pictured(chunk(b"tEXt", as_text(b"chara", older)), chunk(b"tEXt", as_text(b"ccv3", newer)))
    )
    assert read(path).chat.conversation.system_prompt == PROMPT
    packed = b"chara\0\0" + zlib.compress(as_text(b"", older)[1:])
    path.write_bytes(pictured(chunk(b"zTXt", packed)))
    assert read(path).chat.conversation.title == "Old"
    path.write_bytes(pictured(chunk(b"tEXt", b"chara\0?" + base64.b64encode(b"{"))))
    assert read(path).missing == {"Character cards that can't be read": 1}


def test_pictures_that_are_no_card_are_none() -> None:
    def is_none(data: bytes) -> None:
        assert card_chunk(io.BytesIO(data)) == b""

    bomb = chunk(b"zTXt", b"chara\0\0" + zlib.compress(bytes(20_000_000)))
    each(
        is_none,
        [
            (b"",),
            (PNG,),
            (pictured(),),
            (pictured(chunk(b"tEXt", b"Comment\0chara")),),
            (pictured(chunk(b"tEXt", as_text(b"chara", CARD)))[:60],),
            (PNG + struct.pack(">I", 2**32 - 1) + b"tEXtchara\0eA==",),
            (pictured(bomb),),
            (pictured(chunk(b"zTXt", b"chara\0\0nothing packed")),),
        ],
    )


def test_a_chat_of_text_generation_webui(read: Any, outline: Outline, tmp_path: Path) -> None:
    path = tmp_path / "chat" / "Chiharu" / "20250105-14-02-00.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(WEBUI_LOG))
    found = read(tmp_path)
    assert found.apps == ["text-generation-webui"]
    assert outline(found.chat) == [
        "0 assistant: How can I help?",
        "1 user: 1 < 2?",
        "2 assistant: No.",
        "2 assistant: Yes.",
        "3 user: Look\n\n[Attached: gone.pdf]",
        "4 assistant: A dot.",
    ]
    answer = told(found.chat, "Yes.")
    assert (answer.reasoning, answer.author, answer.weights_name) == ("Sure.", "Chiharu", "m.gguf")
    assert answer.created_at == datetime(2025, 1, 5, 14, 4, tzinfo=UTC)
    assert found.chat.conversation.created_at == datetime(2025, 1, 5, 14, 2, tzinfo=UTC)
    asked = told(found.chat, "Look\n\n[Attached: gone.pdf]")
    assert [(each.kind, each.text) for each in asked.attachments] == [
        ("picture", ""),
        ("text", "a note"),
    ]
    assert found.missing["Entries that are no question and answer"] == 1
    path.write_text(json.dumps({"data": [["a", "b"]], "data_visible": [["a", "b"]]}))
    assert outline(read(path).chat) == ["0 user: a", "1 assistant: b"]


def session(tmp_path: Path, **fields: Any) -> Path:
    path = tmp_path / "story.json"
    path.write_text(json.dumps({"gamestarted": True, "memory": "M.", "actions": []} | fields))
    return path


def test_sessions_of_koboldcpp(read: Any, outline: Outline, tmp_path: Path) -> None:
    marked = ["\n{{[INPUT]}}\nHi", "\n{{[OUTPUT]}}\n<think>Hm.</think>Hello[<|p|a1|p|>]"]
    found = read(session(tmp_path, prompt="Intro", actions=marked, savedsettings={"opmode": 4}))
    assert found.apps == ["KoboldCpp"]
    assert outline(found.chat) == ["0 assistant: Intro", "1 user: Hi", "2 assistant: Hello"]
    assert found.chat.conversation.system_prompt == "M."
    assert found.chat.messages[2].reasoning == "Hm."
    assert found.missing == {"Pictures of the session": 1}

    tags = {"opmode": 4, "instruct_starttag": "\n### Instruction:\n",
            "instruct_endtag": "\n### Response:\n"}  # fmt: skip
    older = ["\n### Instruction:\nHi", "\n### Response:\nHello"]
    chat = read(session(tmp_path, prompt="", actions=older, savedsettings=tags)).chat
    assert outline(chat) == ["0 user: Hi", "1 assistant: Hello"]

    names = {"opmode": 3, "chatname": "Ada", "chatopponent": "Bob||$||Eve (2)"}
    text = "\nAda: Hi\nthere: you\nBob: Yo\nEve (2): Hm."
    found = read(session(tmp_path, prompt="", actions=[text], savedsettings=names, worldinfo=[{}]))
    assert outline(found.chat) == [
        "0 user: Hi\nthere: you",
        "1 assistant: Yo",
        "2 assistant: Hm.",
    ]
    assert [message.author for message in found.chat.messages] == ["", "Bob", "Eve (2)"]
    assert found.missing == {"World info": 1}


def test_a_story_of_koboldcpp_is_a_text_document(
    read: Any, outline: Outline, tmp_path: Path
) -> None:
    story = session(tmp_path, prompt="Once ", actions=["upon ", None, "a time."])
    chat = read(story).chat
    assert chat.conversation.kind is ConversationKind.TEXT
    assert outline(chat) == ["0 user: Once upon a time."]
    assert read(session(tmp_path, prompt="")).missing == {"Sessions without a text": 1}


def test_a_picture_with_a_card_in_it_is_an_import_and_others_are_not(tmp_path: Path) -> None:
    card, plain, archive = (tmp_path / name for name in ("card.PNG", "plain.png", "a.charx"))
    card.write_bytes(pictured(chunk(b"tEXt", as_text(b"chara", CARD))))
    plain.write_bytes(pictured())
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("card.json", json.dumps(CARD))
        file.writestr("assets/icon.png", pictured())
    assert [is_import(str(path)) for path in (card, plain, archive)] == [True, False, True]


def test_what_tells_no_time_has_its_files(read: Any, tmp_path: Path) -> None:
    json_lines(tmp_path / "chat.jsonl", {"name": "Ada", "is_user": True, "mes": "Hi"})
    for name, value in (
        ("card", CARD),
        ("session", SESSION),
        ("log", {**WEBUI_LOG, "metadata": 0}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    at = datetime(2024, 5, 6, tzinfo=UTC)
    for path in tmp_path.iterdir():
        os.utime(path, (at.timestamp(), at.timestamp()))
    found = read(tmp_path)
    assert [(c.conversation.created_at, c.conversation.updated_at) for c in found.chats] == 4 * [
        (at, at)
    ]
    assert {message.created_at for chat in found.chats for message in chat.messages} == {at}
