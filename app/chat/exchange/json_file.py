"""Cutaway's JSON file: written and read message by message, so that its size does not matter.

    {"format":"cutaway-chats","version":1,"exported_at":"…",…,"conversations":[
    {"id":"…","title":"…",…,"messages":[
    {"id":"…","role":"user","content":"…",…},
    {"id":"…","role":"assistant","content":"…",…}
    ]},
    {"id":"…","title":"…",…,"messages":[
    ]}
    ]}

It is plain JSON for everybody else. Each line is decoded alone: a decoder holds the interpreter's
lock, and one of 100 MB would stop the window for a second (so, with a chat of 146 MB, its longest
wait is 20 to 90 ms on two busy cores). A file whose lines another program has laid out differently
is read whole, if it is not too large for that.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import BinaryIO, Final

from app.amounts import bytes_words
from app.chat.exchange.json_format import (
    FORMAT,
    VERSION,
    JsonChat,
    JsonFile,
    JsonHead,
    JsonMessage,
    decoded,
    encoded,
    json_chat,
    json_folder,
    json_message,
    json_preset,
    records_of,
)
from app.chat.exchange.refusals import FileRefused
from models.records import Folder, Preset, WholeConversation

MAX_BYTES: Final = 256 * 1024 * 1024
"""Of a file that has to be read whole, and of a single line."""

_CHATS: Final = b',"conversations":['
_MESSAGES: Final = b',"messages":['
_END: Final = b"]}"
_MUST_BEGIN: Final = b"{"


def write(
    file: BinaryIO,
    chats: Iterable[WholeConversation],
    folders: Iterable[Folder],
    presets: Iterable[Preset],
    exported_at: datetime,
) -> int:
    """How many chats there were."""
    head = JsonHead(
        FORMAT,
        VERSION,
        exported_at,
        list(map(json_folder, folders)),
        list(map(json_preset, presets)),
    )
    file.write(encoded(head)[:-1] + _CHATS)
    count = 0
    for chat in chats:
        file.write((b",\n" if count else b"\n") + encoded(json_chat(chat))[:-1] + _MESSAGES)
        for number, message in enumerate(chat.messages):
            line = encoded(json_message(message, chat.traces.get(message.id), chat.files))
            file.write((b",\n" if number else b"\n") + line)
        file.write(b"\n" + _END)
        count += 1
    file.write(b"\n" + _END + b"\n")
    return count


def read(file: BinaryIO, name: str) -> tuple[JsonHead, Iterator[WholeConversation]]:
    """The file's head, and its chats as they are asked for. FileRefused, then too."""
    first = _line(file, name).removeprefix(codecs.BOM_UTF8)
    if first.lstrip()[:1] != _MUST_BEGIN:
        raise FileRefused(f"{name} wasn't exported by Cutaway. Choose a file that was.")
    if first.rstrip().endswith(_CHATS):
        head = decoded(first.rstrip()[: -len(_CHATS)] + b"}", JsonHead, name)
        _check(head, name)
        return head, _chats_by_line(file, name)
    rest = file.read(MAX_BYTES + 1 - len(first))
    if len(first) + len(rest) > MAX_BYTES:
        raise FileRefused(_too_large(name))
    whole = first + rest
    _check(decoded(whole, JsonHead, name), name)
    parsed = decoded(whole, JsonFile, name)
    return parsed, map(records_of, parsed.conversations)


def _check(head: JsonHead, name: str) -> None:
    if head.format != FORMAT:
        raise FileRefused(f"{name} wasn't exported by Cutaway. Choose a file that was.")
    if head.version != VERSION:
        raise FileRefused(
            f"{name} was saved by another version of Cutaway (format {head.version}). Import it "
            "with that version or a newer one."
        )


def _chats_by_line(file: BinaryIO, name: str) -> Iterator[WholeConversation]:
    while (line := _filled_line(file, name)) != _END:
        if not line.endswith(_MESSAGES):  # a chat on one line
            yield records_of(decoded(line.removesuffix(b","), JsonChat, name))
            continue
        chat = decoded(line[: -len(_MESSAGES)] + b"}", JsonChat, name)
        while (line := _filled_line(file, name)).removesuffix(b",") != _END:
            chat.messages.append(decoded(line.removesuffix(b","), JsonMessage, name))
        yield records_of(chat)
    if file.read(1024).strip():
        raise FileRefused(
            f"{name} has data after its end. It is damaged or a different kind of file."
        )


def _filled_line(file: BinaryIO, name: str) -> bytes:
    line = _line(file, name).strip()
    if not line:
        raise FileRefused(f"{name} ends too early. It is damaged or wasn't copied completely.")
    return line


def _line(file: BinaryIO, name: str) -> bytes:
    line = file.readline(MAX_BYTES + 1)
    if len(line) > MAX_BYTES:
        raise FileRefused(_too_large(name))
    return line


def _too_large(name: str) -> str:
    return (
        f"{name} is larger than {bytes_words(MAX_BYTES)} and not in Cutaway's format. Choose the "
        "file as it was exported."
    )
