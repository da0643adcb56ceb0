"""Character cards (Tavern's V1, V2, V3): JSON, a PNG with it inside, or a `.charx` archive.

A card becomes a chat: what describes the character is its system prompt, the greetings are versions
of the first message. `{{char}}` and `{{user}}` are filled in. Lorebooks act by words in the chat,
which nothing here does, so they don't come, and that is said.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.told import Brought, NotUnderstood, Told
from app.chat.exchange.brought.trees import MAX_TEXT, Chat, Keys, Node, assembled
from models.records import Role

APP: Final = "Character cards"
MAX_CARD_BYTES: Final = 16 * 1024 * 1024
"""Of a card's JSON; a picture around it may be as large."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_CHUNKS: Final = (b"ccv3", b"chara")
"""The newer one first: a card often has both."""
_SPECS: Final = ("chara_card_v2", "chara_card_v3")
_USER: Final = "User"
_MACRO: Final = re.compile(r"\{\{(char|user|original)\}\}|<(BOT|USER)>", re.I)
_COMMENT: Final = re.compile(r"\{\{//[^{}]{0,10000}\}\}")


def claims(place: Place) -> Sequence[str]:
    return [
        *(name for name in place.named(".json") if _is_card(place, name)),
        *(name for name in place.named(".png") if card_chunk(place.head(name, MAX_CARD_BYTES))),
    ]


def _is_card(place: Place, name: str) -> bool:
    look = place.look(name)
    if look.is_list:
        return False
    return look.text("spec") in _SPECS or look.has("name", "first_mes", "description")


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    for name in names:
        for value in _read(place, name):
            if isinstance(value, dict):
                yield from _card(value, name)
            else:
                yield NotUnderstood("Character cards that can't be read", name)


def _read(place: Place, name: str) -> Iterator[Any]:
    head = place.head(name, MAX_CARD_BYTES)
    if not head.startswith(_PNG):
        with place.open(name) as file:
            yield from (None if isinstance(each, Cut) else each for each in values(file))
        return
    try:
        yield json.loads(base64.b64decode(card_chunk(head)))
    except (ValueError, RecursionError):
        yield None


def card_chunk(png: bytes) -> bytes:
    """The card inside a PNG, as base64; nothing where there is none, or it is cut off.

    A PNG is a row of chunks: length, kind, bytes, sum (its specification, 5.3). A card stands in a
    text chunk: keyword, NUL, text.
    """
    if not png.startswith(_PNG):
        return b""
    found: dict[bytes, bytes] = {}
    at = len(_PNG)
    while at + 8 <= len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        body = png[at + 8 : at + 8 + length]
        if len(body) < length or kind == b"IEND":
            break
        keyword, _, text = body.partition(b"\0")
        if kind == b"tEXt" and keyword.lower() in _CHUNKS:
            found.setdefault(keyword.lower(), text)
        elif kind == b"zTXt" and keyword.lower() in _CHUNKS:
            unpacker = zlib.decompressobj()
            try:
                text = unpacker.decompress(text[1:], MAX_CARD_BYTES)
            except zlib.error:
                text = b""
            found.setdefault(keyword.lower(), b"" if unpacker.unconsumed_tail else text)
        at += length + 12
    return next((found[kind] for kind in _CHUNKS if found.get(kind)), b"")


def _card(value: dict[str, Any], where: str) -> Iterator[Brought]:
    data = shapes.mapping(value.get("data")) if value.get("spec") in _SPECS else value
    name = shapes.line(data.get("name") or data.get("char_name")) or "Character"
    told = Told(name)

    def said(*fields: str) -> str:
        text = next(filter(None, (shapes.text(data.get(field)) for field in fields)), "")
        return filled(text, name).strip()[:MAX_TEXT]

    prompt = "\n\n".join(
        filter(
            None,
            (
                said("system_prompt"),
                said("description", "char_persona"),
                _headed("Personality", said("personality")),
                _headed("Scenario", said("scenario", "world_scenario")),
                _headed("Examples of what is said", said("mes_example", "example_dialogue")),
                said("post_history_instructions"),
            ),
        )
    )
    greetings = [said("first_mes", "char_greeting")]
    greetings += [
        filled(shapes.text(each), name).strip()
        for each in shapes.listed(data.get("alternate_greetings"))
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
        shapes.time(data.get("modification_date")),
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
