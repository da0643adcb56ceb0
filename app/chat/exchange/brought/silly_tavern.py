"""SillyTavern's chats: a file of JSON Lines each, in a folder of the character's, or of groups.

The first line tells who talks; each other one is a message, without an id, known by what it says.
`swipes` are versions of it, of which `swipe_id` is shown and goes on. Times are written in at least
four ways. Known from its issues: no first line (old groups), `mes` without its swipe, numbers as
texts, messages that are hidden from the prompt (`is_system`), and pictures on the server's disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from app.chat.exchange.brought import shapes
from app.chat.exchange.brought.media import data_picture
from app.chat.exchange.brought.pieces import CUT_OFF, Cut, lines
from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.steps import Said, Thought, without_thoughts
from app.chat.exchange.brought.told import Brought, Told
from app.chat.exchange.brought.trees import (
    Chat,
    File,
    Keys,
    Node,
    assembled,
    folder_of,
    made_id,
    versions_of,
)
from models.records import Role

APP: Final = "SillyTavern"
HIDDEN: Final = "Messages hidden from the prompt: as ordinary ones"

# "2023-11-4 @21h 30m 20s 123ms", "2023-11-4@21h30m20s", "November 4, 2023 9:30pm"
_AT: Final = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?) ?@(\d\d?)h ?(\d\d?)m(?: ?(\d\d?)s(?: ?(\d{1,3})ms)?)?\Z"
)
_WORDS: Final = re.compile(
    r"([A-Za-z]{3})[a-z]* (\d\d?), (\d{4}) (\d\d?):(\d\d)(?::(\d\d))? ?([ap])m\Z", re.I
)
_MONTHS: Final = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_UNUSED: Final = "unused"
"""Stands in the place of both names in newer files."""
_CHATS: Final = ("chats", "group chats")


def claims(place: Place) -> Sequence[str]:
    return [name for name in place.named(".jsonl") if _is_chat(place, name)]


def _is_chat(place: Place, name: str) -> bool:
    look = place.look(name)
    if look.is_list:
        return False
    return look.has("mes", "is_user") or (
        look.has("user_name") and bool(look.keys & {"character_name", "chat_metadata"})
    )


def read(place: Place, names: Sequence[str]) -> Iterator[Brought]:
    folders: set[str] = set()
    for name in names:
        told = Told(name)
        folder = _folder(name)
        if folder and folder not in folders:
            folders.add(folder)
            yield folder_of(APP, folder, folder, None)
        header: dict[str, Any] = {}
        said: list[dict[str, Any]] = []
        with place.open(name) as file:
            for value in lines(file):
                if isinstance(value, Cut):
                    told.of("Lines that can't be read" if value.why == CUT_OFF else value.why)
                elif not isinstance(value, dict):
                    told.of("Lines that can't be read")
                elif "mes" in value:
                    said.append(value)
                elif not header:
                    header = value
        yield from _chat(header, said, name, place.changed_at(name), folder, told)
        yield from told.all()


def _folder(name: str) -> str:
    """The character's, where the file stands in one."""
    parts = name.split("/")[:-1]
    return parts[-1] if parts and parts[-1] not in _CHATS else ""


def _chat(
    header: dict[str, Any],
    said: list[dict[str, Any]],
    name: str,
    written_at: datetime | None,
    folder: str,
    told: Told,
) -> Iterator[Brought]:
    about = shapes.mapping(header.get("chat_metadata"))
    base = name.rpartition("/")[2].rpartition(".")[0] or name
    character = shapes.line(header.get("character_name"))
    if character in ("", _UNUSED):
        character = _first_name(said) or folder
    chat = Chat(
        APP,
        # A file that is renamed, or goes on in a branch of its own, keeps the one it has.
        f"{shapes.key(about.get('integrity')) or base} {character}",
        shapes.line(about.get("chat_title")) or base,
        tavern_time(header.get("create_date")),
        folder_id=made_id(APP, "folder", folder) if folder else None,
    )
    told.where = chat.title
    for kind, what in (("note_prompt", "Author's notes"), ("variables", "Variables of scripts")):
        if about.get(kind):
            told.of(what)
    keys = Keys()
    nodes: list[Node] = []
    for message in said:
        nodes += _versions(message, _shown(nodes), keys, told)
    chat.leaf = _shown(nodes) or ""
    chat.tell_time(nodes, written_at)
    whole = assembled(chat, nodes, told.of)
    if whole is None:
        told.of("Chats without a message")
    else:
        yield whole


def _first_name(said: list[dict[str, Any]]) -> str:
    return next((shapes.line(m.get("name")) for m in said if m.get("is_user") is not True), "")


def _shown(nodes: list[Node]) -> str | None:
    return next((node.key for node in reversed(nodes) if node.is_shown), None)


def _versions(message: dict[str, Any], above: str | None, keys: Keys, told: Told) -> Iterator[Node]:
    extra = shapes.mapping(message.get("extra"))
    kind = shapes.text(extra.get("type"))
    name = shapes.line(message.get("name"))
    is_user = message.get("is_user") is True
    if message.get("is_system") is True:
        told.of(HIDDEN)
    text = shapes.text(message.get("mes"))
    swipes = list(map(shapes.text, shapes.listed(message.get("swipes"))))
    infos = shapes.listed(message.get("swipe_info"))
    versions, chosen = versions_of(swipes, text, shapes.number(message.get("swipe_id")))
    for number, version in enumerate(versions):
        info = shapes.mapping(infos[number] if number < len(infos) else None)
        own = extra if number == chosen else shapes.mapping(info.get("extra"))
        node = Node(
            keys.of("user" if is_user else name, version),
            above,
            Role.USER if is_user else Role.SYSTEM if kind == "narrator" else Role.ASSISTANT,
            created_at=tavern_time(info.get("send_date")) or tavern_time(message.get("send_date")),
            weights_name=shapes.line(own.get("model")),
            author="" if is_user else name,
            files=_files(own),
            is_shown=number == chosen,
        )
        steps = list(without_thoughts(version))
        thoughts = [shapes.text(own.get("reasoning"))]
        thoughts += [step.text for step in steps if isinstance(step, Thought)]
        if node.role is Role.ASSISTANT:
            node.reasoning = "\n\n".join(filter(str.strip, thoughts))
            node.content = "".join(step.text for step in steps if isinstance(step, Said))
            ms = shapes.number(own.get("reasoning_duration"))
            node.seconds = ms / 1000 if ms else None
        else:
            node.content = version
        yield node


def _files(extra: dict[str, Any]) -> list[File]:
    """Pictures stand as data, or as the address of a file on the server: its name then."""
    found = [extra.get("image"), *shapes.listed(extra.get("image_swipes"))]
    found += [each.get("url") for each in shapes.mappings(extra.get("media"))]
    urls = dict.fromkeys(each for each in found if isinstance(each, str) and each)
    names = {url: "Picture" if url.startswith("data:") else url.rpartition("/")[2] for url in urls}
    files = [data_picture(url, name or "Picture") for url, name in names.items()]
    attached = [extra.get("file"), *shapes.listed(extra.get("files"))]
    files += [
        File(shapes.line(each.get("name")) or "File", shapes.text(each.get("text")))
        for each in shapes.mappings(attached)
    ]
    return files


def tavern_time(value: object) -> datetime | None:
    """A time in one of the ways that it was ever written in; without a zone it is UTC.

    >>> str(tavern_time("2023-11-4 @21h 30m 20s 5ms")), str(tavern_time("November 4, 2023 9:30pm"))
    ('2023-11-04 21:30:20.005000+00:00', '2023-11-04 21:30:00+00:00')
    """
    text = value.strip() if isinstance(value, str) and len(value) < 100 else ""
    try:
        if (found := _AT.match(text)) is not None:
            year, month, day, hour, minute, second, ms = (int(each or 0) for each in found.groups())
            return datetime(year, month, day, hour, minute, second, ms * 1000, UTC)
        if (found := _WORDS.match(text)) is not None:
            name, day_of, year_of, hour_of, minute_of, second_of, half = found.groups()
            hour = int(hour_of) % 12 + 12 * (half in "pP")
            month = _MONTHS.index(name.lower()) + 1
            return datetime(
                int(year_of), month, int(day_of), hour, int(minute_of), int(second_of or 0), 0, UTC
            )
    except ValueError:
        return None
    return shapes.time(value)
