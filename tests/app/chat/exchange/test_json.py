"""Cutaway's JSON: lossless, chat by chat, and bad files end in one sentence."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from whole_chats import NOON, a_chat, whole_chats

from app.chat.exchange import json_file
from app.chat.exchange.json_format import folders_of, plain, presets_of
from app.chat.exchange.refusals import FileRefused
from models.records import Folder, Preset, WholeConversation

FOLDERS = (Folder("outer", "Work", NOON), Folder("inner", "Cutaway", NOON, "outer", 3))
PRESETS = (Preset("p", "Precise", NOON, NOON, {"temperature": 0.1}, 2),)


def written(*chats: WholeConversation) -> bytes:
    file = io.BytesIO()
    assert json_file.write(file, chats, FOLDERS, PRESETS, NOON) == len(chats)
    return file.getvalue()


def read(raw: bytes) -> list[WholeConversation]:
    head, chats = json_file.read(io.BytesIO(raw), "chats.json")
    found = list(chats)
    folders_of(head)
    presets_of(head)
    return found


@settings(max_examples=examples(50))
@given(st.lists(whole_chats(), max_size=3))
def test_nothing_is_lost(chats: list[WholeConversation]) -> None:
    raw = written(*chats)
    assert read(raw) == chats
    assert read(json.dumps(json.loads(raw), indent=2).encode()) == chats
    head, _ = json_file.read(io.BytesIO(raw), "chats.json")
    assert (folders_of(head), presets_of(head), head.exported_at) == (FOLDERS, PRESETS, NOON)


def test_each_message_is_one_line_of_a_document_that_others_can_read() -> None:
    raw = written(a_chat("one"), a_chat("two"))
    assert raw.count(b"\n") == 2 + 2 * (4 + 2)
    document = json.loads(raw)
    assert [c["title"] for c in document["conversations"]] == ["One", "Two"]
    assert document["conversations"][0]["messages"][1] == {
        "id": "one-1",
        "role": "assistant",
        "content": "**0**.",
        "created_at": "2026-05-03T12:00:00.123456Z",
        "parent_id": "one-0",
    }


def test_a_chat_on_one_line_is_read_too() -> None:
    raw = written(a_chat("one"), a_chat("two"))
    lines = raw.split(b"\n")
    joined = b"\n".join([lines[0], b"".join(lines[1:7]), b"".join(lines[7:13]), *lines[13:]])
    assert read(joined) == [a_chat("one"), a_chat("two")]


def test_chats_are_read_as_they_are_asked_for() -> None:
    """A file of any size takes no more memory than its largest chat."""

    class Lines(io.BytesIO):
        n_read = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            self.n_read += 1
            return super().readline(size)

    lines = Lines(written(*(a_chat(f"chat{n}") for n in range(100))))
    _, chats = json_file.read(lines, "chats.json")
    next(chats)
    assert lines.n_read == 1 + 1 + 4 + 1


def test_what_json_cannot_hold_is_left_out() -> None:
    values = {"a": float("nan"), "b": [float("inf"), 10**30], "\ud800": "\udc00x", "c": (1, True)}
    assert plain(values) == {"a": None, "b": [None, None], "\ufffd": "\ufffdx", "c": [1, True]}
    chat = a_chat(settings={"top_p": float("nan")}, weights_path="/\udcff.gguf")
    (again,) = read(written(chat))
    assert again.conversation.settings == {"top_p": None}
    assert again.conversation.weights_path == "/\ufffd.gguf"


# --- files that are wrong ---------------------------------------------------------------------


def with_chat(**changes: Any) -> bytes:
    """A file whose one chat has other fields."""
    document = json.loads(written(a_chat()))
    document["conversations"][0] |= changes
    return json.dumps(document).encode()


def with_message(number: int = 0, **changes: Any) -> bytes:
    document = json.loads(written(a_chat()))
    document["conversations"][0]["messages"][number] |= changes
    return json.dumps(document).encode()


def with_head(**changes: Any) -> bytes:
    return json.dumps(json.loads(written(a_chat())) | changes).encode()


def without(field: str) -> bytes:
    document = json.loads(written(a_chat()))
    del document["conversations"][0][field]
    return json.dumps(document).encode()


GOOD = written(a_chat("one"), a_chat("two"))
FOLDER = {"id": "a", "name": "A", "created_at": "2026-05-03T12:00:00Z", "parent_id": "b"}
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "wasn't exported by Cutaway"),
    "words": (b"Dear diary", "wasn't exported by Cutaway"),
    "a list": (b"[]", "wasn't exported by Cutaway"),
    "binary": (bytes(range(256)), "wasn't exported by Cutaway"),
    "another program's": (b'{"format": "jan", "version": 1}', "wasn't exported by Cutaway"),
    "an empty object": (b"{}", "missing required field `format`"),
    "cut short": (GOOD[:-4], "damaged"),
    "cut in a chat": (GOOD[: len(GOOD) // 2], "damaged"),
    "goes on": (GOOD + b'{"more": 1}', "has data after its end"),
    "unknown version": (with_head(version=2), "another version of Cutaway"),
    "version of another type": (with_head(version="1"), "Expected `int`"),
    "chats of another type": (with_head(conversations={}), "Expected `array`"),
    "title of another type": (with_chat(title=7), "Expected `str`"),
    "no title": (without("title"), "missing required field `title`"),
    "empty id": (with_chat(id=""), "length >= 1"),
    "unknown role": (with_message(role="alien"), "Invalid enum value 'alien'"),
    "time of no day": (with_message(created_at="2026-13-01T00:00:00Z"), "Invalid RFC3339"),
    "time without zone": (with_message(created_at="2026-05-03T12:00:00"), "timezone"),
    "time before all": (with_message(created_at="0001-01-01T00:00:00+05:00"), "impossible date"),
    "token too large": (with_message(token_ids=[2**31]), "<= 2147483647"),
    "seed too large": (with_message(seed=2**63), "9223372036854775807"),
    "trace no base64": (with_message(trace="§"), "base64"),
    "nan": (GOOD.replace(b'"Question 0?"', b"NaN"), "isn't complete JSON"),
    "nan in settings": (
        GOOD.replace(b'"title":"One"', b'"title":"One","settings":{"p":NaN}'),
        "isn't complete JSON",
    ),
    "too large a number": (
        GOOD.replace(b'"title":"One"', b'"title":"One","settings":{"p":1e999}'),
        "out of range",
    ),
    "lone surrogate": (GOOD.replace(b"Question 0?", rb"\ud800 alone"), "isn't complete JSON"),
    "not utf-8": (GOOD.replace(b"Question 0?", b"\xff\xfe"), "isn't UTF-8"),
    "own parent": (with_message(0, parent_id="chat-0"), "below the one it follows"),
    "circle": (with_message(0, parent_id="chat-3"), "below the one it follows"),
    "parent nowhere": (with_message(1, parent_id="x"), "below the one it follows"),
    "twice": (with_message(1, id="chat-0"), "twice"),
    "folder in itself": (
        with_head(folders=[FOLDER, FOLDER | {"id": "b", "parent_id": "a"}]),
        "contains itself",
    ),
    "deep": (b'{"format":"cutaway-chats","version":1,"x":' + b"[" * 300_000, "nested too deeply"),
    "deep settings": (
        GOOD.replace(
            b'"title":"One"',
            b'"title":"One","settings":{"x":' + b"[" * 99_999 + b"]" * 99_999 + b"}",
        ),
        "nested too deeply",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_ends_in_one_sentence(name: str) -> None:
    raw, words = BAD[name]
    with pytest.raises(FileRefused) as refused:
        read(raw)
    sentence = str(refused.value)
    assert words in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize("layout", ["one line", "many lines"])
def test_a_file_too_large_to_be_read_whole_is_refused_before_it_is(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_file, "MAX_BYTES", 1024)
    filler: Callable[[int], bytes] = lambda n: (b"x" if layout == "one line" else b" \n") * n  # noqa: E731

    class Counted(io.BytesIO):
        n_read = 0

        def read(self, size: int | None = -1, /) -> bytes:
            got = super().read(size)
            self.n_read += len(got)
            return got

    file = Counted(b'{"format": "' + filler(10_000))
    with pytest.raises(FileRefused, match="is larger than"):
        json_file.read(file, "chats.json")
    assert file.n_read <= 1025


def test_many_chats_may_be_larger_than_one_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    chats = [a_chat(f"chat{n}") for n in range(20)]
    raw = written(*chats)
    monkeypatch.setattr(json_file, "MAX_BYTES", len(raw) // 10)
    assert read(raw) == chats
    large = replace(
        chats[0], messages=tuple(replace(m, content="x" * len(raw)) for m in chats[0].messages)
    )
    with pytest.raises(FileRefused, match="is larger than"):
        read(written(large))
