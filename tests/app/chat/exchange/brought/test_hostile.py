"""Files that are made to harm: bounded in memory and time, refused in words; they write nothing."""

from __future__ import annotations

import io
import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import foreign_exports as exports
import pytest
from foreign_exports import gpt_chat, said, tree

from app.chat.exchange.brought import pieces, places
from app.chat.exchange.brought.formats import recognised
from app.chat.exchange.brought.pieces import Cut, values
from app.chat.exchange.brought.places import opened_place
from app.chat.exchange.brought.steps import Said, without_details
from app.chat.exchange.refusals import FileRefused


def refused(path: Path, read: Any) -> str:
    try:
        found = read(path)
    except FileRefused as why:
        return str(why)
    assert not found.chats
    return "; ".join(found.missing)


def bomb(path: Path, size: int) -> Path:
    """A list of one chat that is followed by spaces."""
    head = json.dumps([gpt_chat("A", tree({"a": (None, said("user", "Hi"))}), "a")])
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("conversations.json", "w") as member,
    ):
        member.write(head[:-1].encode())
        for _ in range(size >> 20):
            member.write(b" " * (1 << 20))
    return path


def test_a_bomb_ends_early(read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "FREELY_EXPANDED", 1 << 20)
    tracemalloc.start()
    found = read(bomb(tmp_path / "bomb.zip", 8 << 20))
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert [chat.conversation.title for chat in found.chats] == ["A"]
    assert "expands to far more than its size" in " ".join(found.missing)


@pytest.mark.soak
def test_a_bomb_of_gigabytes_takes_no_memory(read: Any, tmp_path: Path) -> None:
    tracemalloc.start()
    found = read(bomb(tmp_path / "bomb.zip", 2 << 30))
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert "expands to far more than its size" in " ".join(found.missing)


def test_names_in_an_archive_are_no_paths(read: Any, tmp_path: Path) -> None:
    chats = json.dumps([exports.gpt_branches()])
    names = ("/etc/conversations.json", "../../x.json", "C:\\a\\b.json", "link.json")
    path = tmp_path / "in" / "names.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            info = zipfile.ZipInfo(name)
            if name == "link.json":
                info.external_attr = 0o120777 << 16  # a symbolic link, by its mode
            file.writestr(info, chats)
    before = sorted(tmp_path.rglob("*"))
    assert len(read(path).chats) == len(names)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_lies_in_a_folder_is_read_and_nothing_beyond_it(read: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps([exports.gpt_branches()]))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.json").symlink_to(outside)
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.json")
    with opened_place(folder) as place:
        assert (place.entries, recognised(place)) == ((), [])
    deep = folder
    for _ in range(places.MAX_DEPTH + 2):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with opened_place(folder) as place:
        assert place.is_cut


def test_archives_that_are_damaged_locked_or_endless_are_refused_in_words(
    read: Any, tmp_path: Path
) -> None:
    good = exports.gpt_archive(tmp_path / "good.zip").read_bytes()
    at = good.rindex(b"PK\5\6")
    central = good.index(b"PK\1\2")
    data = good.index(b"conversations.json") + 60

    def changed(**parts: tuple[int, bytes]) -> bytes:
        raw = bytearray(good)
        for place, new in parts.values():
            raw[place : place + len(new)] = new
        return bytes(raw)

    locked = bytearray(good)
    for sign, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = locked.find(sign)
        while place >= 0:
            locked[place + flags] |= 1
            place = locked.find(sign, place + 1)
    cases = {
        "cut off": (good[: len(good) // 2], "cut off or damaged"),
        "no names": (changed(a=(central, b"XXXX")), "cut off or damaged"),
        "a million names": (changed(a=(at + 10, b"\xff\xff\xff\xff\xff\x7f")), "too many"),
        "damaged data": (changed(a=(data, b"\xff" * 40)), ""),
        "locked": (bytes(locked), ""),
        "empty": (b"PK\5\6" + bytes(18), ""),
        "64 bits": (
            b"PK\3\4" + b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 0, 0, 0, 0, 9**9, 9**9, 9**9, 0)
            + b"PK\5\6" + bytes(18),
            "too many",
        ),
    }  # fmt: skip
    for name, (raw, words) in cases.items():
        path = tmp_path / "bad.zip"
        path.write_bytes(raw)
        assert words in refused(path, read), name


def test_json_that_is_deep_large_or_wrong_costs_its_own_chat_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces, "MAX_COST", 30_000)

    def read(text: bytes, *within: str) -> list[Any]:
        return list(values(io.BytesIO(text), frozenset(within)))

    deep = b"[" * 50_000
    assert read(deep) == [Cut(None, pieces.CUT_OFF)]
    huge = json.dumps({"title": "Huge", "text": ["x" * 100] * 300}).encode()
    assert read(b"[" + huge + b', {"a": 1}]') == [
        Cut({"title": "Huge"}, pieces.TOO_LARGE),
        {"a": 1},
    ]
    nested = b'{"b": ' + b"[" * 300 + b"]" * 300 + b"}"
    assert read(b"[" + nested + b",2]") == [Cut({}, pieces.TOO_DEEP), 2]
    assert read(b'{"a": 1, "chats": [{"b": 2}, 3], "c": {"d": 4}}', "chats") == [
        {"b": 2}, 3, {"a": 1, "c": {"d": 4}},
    ]  # fmt: skip
    assert read(b'{"chats": [' + huge + b', 5], "e": 6}', "chats") == [
        Cut({"title": "Huge"}, pieces.TOO_LARGE), 5, {"e": 6},
    ]  # fmt: skip
    whole = {"a": "\u2028é", "n": None}
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert read(json.dumps(whole, ensure_ascii=False).encode(encoding)) == [whole]
    assert read(b'["\xff \x01 \\ud800", 1.5e3, -2,') == [
        "\ufffd   ?",
        1500.0,
        -2,
        Cut(None, pieces.CUT_OFF),
    ]
    assert read(b'[{"a": [1, {"b": nan}]}]') == [Cut({"a": [1, {}]}, pieces.CUT_OFF)]
    assert read(b'[{"a": 1},]') == [{"a": 1}, Cut(None, pieces.CUT_OFF)]
    assert read(b"") == [Cut(None, pieces.CUT_OFF)]


BROKEN = Cut(None, pieces.CUT_OFF)


def test_numbers_that_no_parser_takes_cost_nothing_else() -> None:
    odd = {
        "18446744073709551615": 18446744073709551615.0, "-1e999": None, "NaN": None, "1E+2": 100.0,
        "-Infinity": None, "1" * 400: None, "12345678901234567890.5": 12345678901234567890.5,
        "123456789012345678": 123456789012345678, "1e-400": 0.0,
    }  # fmt: skip
    told = [f'NaN, {key} \\" 1e999 [{key}]: \\\\ {"9" * 30}' for key in odd]
    text = ", ".join(f'{{"t": {json.dumps(t)}, "n": {k}}}' for t, k in zip(told, odd, strict=True))

    class Slowly(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(7, size or 0))

    for file in (io.BytesIO, Slowly):
        found = list(values(file(f"[{text}]".encode())))
        assert found == [{"t": t, "n": n} for t, n in zip(told, odd.values(), strict=True)]

    for digits in (5000, 300_000):  # more than a piece: only that it ends in words
        assert next(values(io.BytesIO(b"[" + b"1" * digits + b"]"))) in (None, BROKEN)


def test_texts_that_are_made_to_be_slow_are_not() -> None:
    """Each would take minutes with a pattern that goes back and forth."""
    for text in ("<details " * 100_000, "<details>" + "a" * 500_000, "<think>" * 100_000):
        assert list(without_details(text))
    spaces = f'<details type="reasoning">{" " * 500_000}</details>x'
    assert list(without_details(spaces))[-1] == Said("x")


def test_a_long_chain_and_a_huge_message_come(read: Any, tmp_path: Path) -> None:
    """Ten thousand messages below each other, backwards; and one that is longer than is kept."""
    chain = {f"n{at}": (f"n{at - 1}" if at else None, said("user", str(at))) for at in range(3000)}
    mapping = dict(reversed(tree_of_chain(chain).items()))
    huge = tree({"a": (None, said("user", "x" * 8_000_100))})
    path = tmp_path / "long.json"
    path.write_text(json.dumps([gpt_chat("Long", mapping, "n2999"), gpt_chat("Huge", huge, "a")]))
    long, cut = read(path).chats
    assert [message.content for message in long.messages] == list(map(str, range(3000)))
    assert len(cut.messages[0].content) == 8_000_000


def tree_of_chain(edges: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {"id": key, "parent": parent, "message": message, "children": []}
        for key, (parent, message) in edges.items()
    }


def test_what_goes_while_a_folder_is_listed_takes_nothing_else_with_it(
    read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.json", "b.json", "gone/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps([exports.gpt_branches()]))
    scan = os.scandir

    def vanishing(folder: Path) -> Any:
        found = list(scan(folder))
        if folder == tmp_path:
            (tmp_path / "gone" / "c.json").unlink()
            (tmp_path / "gone").rmdir()
            (tmp_path / "a.json").unlink()
        return found

    monkeypatch.setattr(places.os, "scandir", vanishing)
    with opened_place(tmp_path) as place:
        assert [entry.name for entry in place.entries] == ["b.json"]
        assert sorted(place.unread) == ["a.json", "gone/"]


def test_looking_for_chats_can_be_given_up(tmp_path: Path) -> None:
    class GivenUpError(Exception):
        pass

    def give_up() -> None:
        raise GivenUpError

    with opened_place(exports.gpt_archive(tmp_path / "a.zip")) as place:
        place.check = give_up
        with pytest.raises(GivenUpError):
            recognised(place)
