"""Character cards: Tavern's V1, V2 and V3 as JSON, inside a PNG or in a `.charx` archive; older
ones (`char_name`), and text-generation-webui's characters, which are YAML.

A card becomes a chat: what describes the character is its system prompt, the greetings are versions
of the first message. `{{char}}` and `{{user}}` are filled in. Lorebooks act by words in the chat,
which nothing here does, so they don't come, and that is said.
"""

from __future__ import annotations

import base64
import io
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import IO, Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.told import Brought, NotUnderstood, Told
from app.chat.exchange.brought.trees import Chat, Keys, Node, assembled
from app.chat.exchange.refusals import FileRefused
from models.records import Role

APP: Final = "Character cards"
MAX_CARD_BYTES: Final = 16 * 1024 * 1024
MAX_FIELD: Final = 1_000_000
"""Characters of a field, before names are filled in."""
LONGEST_NAME: Final = 100

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_CHUNKS: Final = (b"ccv3", b"chara")
"""The newer one first: a card often has both."""
YAML: Final = (".yaml", ".yml")
_MAX_CHUNKS: Final = 100_000
_SPECS: Final = ("chara_card_v2", "chara_card_v3")
_KEYS: Final = ({"name", "first_mes", "description"}, {"char_name", "char_persona"})
_YAML_KEYS: Final = ({"name", "context"}, {"name", "greeting"})
_YAML_KEY: Final = re.compile(r"^(\w+):", re.M)
_USER: Final = "User"
_MACRO: Final = re.compile(r"\{\{(char|user|original)\}\}|<(BOT|USER)>", re.I)
_COMMENT: Final = re.compile(r"\{\{//[^{}]{0,10000}\}\}")


def claims(place: Place) -> Sequence[str]:
    return [
        *(name for name in place.named(".json") if _is_card(place, name)),
        *(e.name for e in place.entries if e.suffix in YAML and _is_character(place, e.name)),
        *(name for name in _may_hold_one(place) if _in_png(place, name)),
    ]


def _is_card(place: Place, name: str) -> bool:
    look = place.look(name)
    if look.is_list:
        return False
    return look.text("spec") in _SPECS or any(look.keys >= keys for keys in _KEYS)


def _is_character(place: Place, name: str) -> bool:
    head = place.head(name, shapes.MAX_YAML)
    if head.startswith((_PNG, b"{", b"[")):
        return False
    found = set(_YAML_KEY.findall(head.decode("utf-8", "replace")))
    return any(found >= keys for keys in _YAML_KEYS)


def _may_hold_one(place: Place) -> list[str]:
    """An archive's pictures are unpacked to be looked into: not those that lie beside chats, which
    may be gigabytes, unless it is where SillyTavern keeps its cards."""
    found = list(place.named(".png"))
    if place.kind == "archive" and any(place.named(".json", ".jsonl")):
        return [name for name in found if "characters/" in name]
    return found


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    for name in names:
        for value in _read(place, name):
            if isinstance(value, dict):
                yield from _card(value, name, place.changed_at(name))
            else:
                yield NotUnderstood("Character cards that can't be read", name)


def _read(place: Place, name: str) -> Iterator[Any]:
    head = place.head(name, shapes.MAX_YAML)
    if head.startswith(_PNG):
        try:
            file: IO[bytes] = io.BytesIO(base64.b64decode(_in_png(place, name)))
        except ValueError:
            yield None
            return
    elif not place.look(name).is_json:
        yield shapes.yaml_value(head.decode("utf-8-sig", "replace"))
        return
    else:
        file = place.open(name)
    with file:
        for each in values(file):
            yield None if isinstance(each, Cut) else each


def _in_png(place: Place, name: str) -> bytes:
    try:
        with place.open(name) as file:
            return card_chunk(file)
    except FileRefused:
        return b""


def card_chunk(png: IO[bytes]) -> bytes:
    """The card inside a PNG, as base64; nothing where there is none, or it is cut off.

    A PNG is a row of chunks: length, kind, bytes, sum (its specification, 5.3). A card stands in a
    text chunk: keyword, NUL, text.
    """
    if png.read(len(_PNG)) != _PNG:
        return b""
    found: dict[bytes, bytes] = {}
    for _ in range(_MAX_CHUNKS):
        head = png.read(8)
        if len(head) < 8:
            break
        length, kind = struct.unpack(">I4s", head)
        if kind == b"IEND":
            break
        if kind not in (b"tEXt", b"zTXt") or length > MAX_CARD_BYTES:
            _skip(png, length + 4)
            continue
        body = png.read(length + 4)[:length]
        keyword, _, text = body.partition(b"\0")
        if len(body) == length and keyword.lower() in _CHUNKS:
            found.setdefault(keyword.lower(), text if kind == b"tEXt" else _unpacked(text[1:]))
    return next((found[kind] for kind in _CHUNKS if found.get(kind)), b"")


def _skip(file: IO[bytes], count: int) -> None:
    if file.seekable():
        file.seek(count, io.SEEK_CUR)
        return
    while count > 0 and (some := file.read(min(count, 1 << 16))):
        count -= len(some)


def _unpacked(text: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(text, MAX_CARD_BYTES)
    except zlib.error:
        return b""
    return b"" if unpacker.unconsumed_tail else found


def _card(value: dict[str, Any], where: str, written_at: datetime | None) -> Iterator[Brought]:
    data = shapes.mapping(value.get("data")) if value.get("spec") in _SPECS else value
    name = shapes.line(data.get("name") or data.get("char_name"))[:LONGEST_NAME].strip()
    name = name or "Character"
    told = Told(name)

    def written(text: str) -> str:
        if len(text) > MAX_FIELD:
            told.of(f"The rest of fields longer than {MAX_FIELD:,} characters")
        return filled(text[:MAX_FIELD], name).strip()

    def said(*fields: str) -> str:
        text = next(filter(None, (shapes.text(data.get(field)) for field in fields)), "")
        return written(text)

    prompt = "\n\n".join(
        filter(
            None,
            (
                said("system_prompt"),
                said("description", "char_persona", "context"),
                _headed("Personality", said("personality")),
                _headed("Scenario", said("scenario", "world_scenario")),
                _headed("Examples of what is said", said("mes_example", "example_dialogue")),
                said("post_history_instructions"),
            ),
        )
    )
    greetings = [said("first_mes", "char_greeting", "greeting")]
    greetings += [
        written(shapes.text(each)) for each in shapes.listed(data.get("alternate_greetings"))
    ]
    book = shapes.mapping(data.get("character_book"))
    told.of("Entries of lorebooks", len(shapes.listed(book.get("entries"))))
    if data.get("group_only_greetings"):
        told.of("Greetings for groups")
    keys = Keys()
    nodes = [
        Node(keys.of(text), None, Role.ASSISTANT, text, author=name)
        for text in dict.fromkeys(filter(None, greetings))
    ]
    tags = tuple(filter(None, (shapes.line(tag) for tag in shapes.listed(data.get("tags")))))[:20]
    chat = Chat(
        APP,
        f"{name} {keys.of(prompt, *greetings)}",
        name,
        shapes.time(data.get("creation_date")),
        shapes.time(data.get("modification_date")) or written_at,
        prompt,
        tags=tags,
        leaf=nodes[0].key if nodes else "",
    )
    whole = assembled(chat, nodes, told.of, may_be_empty=bool(prompt))
    if whole is None:
        told.of("Character cards without a text")
    else:
        yield whole
    yield from told.all()


def _headed(heading: str, text: str) -> str:
    return f"{heading}:\n{text}" if text else ""


def filled(text: str, name: str) -> str:
    """
    >>> filled("{{char}} greets {{user}}.{{// soft}}", "Ada")
    'Ada greets User.'
    """
    names = {"char": name, "bot": name, "user": _USER, "original": ""}
    return _MACRO.sub(lambda found: names[(found[1] or found[2]).lower()], _COMMENT.sub("", text))
