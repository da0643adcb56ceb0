"""What can be attached, and what is refused, each in one sentence."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from app.chat.attachments.text_files import (
    ENCODINGS,
    MAX_BYTES,
    FileRefused,
    Guess,
    decoded,
    guess_words,
    read_as,
    read_text_file,
)
from app.reading.files import shown_name


@pytest.mark.parametrize(
    "raw",
    [
        "Zürich, 漢字 🙂\n".encode(),
        b"\xef\xbb\xbf" + "Zürich, 漢字 🙂\n".encode(),
        "Zürich, 漢字 🙂\n".encode("utf-16"),
        "Zürich, 漢字 🙂\n".encode("utf-32"),
    ],
)
def test_unicode_files_are_read_as_written(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(raw)
    read = read_text_file(str(path))
    assert (read.name, read.text, read.note) == ("notes.txt", "Zürich, 漢字 🙂\n", "")
    assert read.size_bytes == len("Zürich, 漢字 🙂\n".encode())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_known_by_its_zeros(encoding: str) -> None:
    file = decoded("a.txt", "Plain words.\r\n".encode(encoding))
    assert (file.text, file.note) == ("Plain words.\n", "")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Größe: 3 €, naïve “quotes” – dash", "cp1252"),
        ("Le café était fermé; nous sommes allés à la plage avec mes élèves français.", "cp1252"),
        ("naïve café", "cp1252"),
        ("Så är det på svenska, å ä ö.", "cp1252"),
        ("Füße, très bien, señor, 5 €", "cp1252"),
        ("name,city\nJosé,Málaga\n", "cp1252"),
        ("São Paulo não é a capital; ações, às vezes, à toa.", "cp1252"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy. Dobrý den, jak se máte?", "cp1250"),
        ("Árvíztűrő tükörfúrógép. Jó napot kívánok, hogy vagy?", "cp1250"),
        ("Aš esu mokinys, mokausi lietuvių kalbą ir gyvenu Vilniuje. Ačiū, labas!", "cp1257"),
        ("Bugün hava çok güzel, değil mi? İstanbul’da yaşıyorum ve işe gidiyorum.", "cp1254"),
        ("שלום עולם, מה שלומך היום? אני לומד עברית.", "cp1255"),
        ("Καλημέρα κόσμε, τι κάνετε σήμερα; Είμαι πολύ καλά, ευχαριστώ.", "cp1253"),
        ("Zażółć gęślą jaźń. Chrząszcz brzmi w trzcinie w Szczebrzeszynie.", "cp1250"),
        ("Привет, мир! Как дела?", "cp1251"),
        ("Привет, мир! Как дела?", "koi8-r"),
        ("吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。", "cp932"),
        ("こんにちは、世界。", "cp932"),
        ("吾輩は猫である。名前はまだ無い。", "euc_jp"),
        ("# メモ\n日本語のテキスト\n", "iso2022_jp"),
        ("你好，世界。", "gb18030"),
        ("# 说明\nname=测试\n这是一个文件\n", "gb18030"),
        ("人工智慧是電腦科學的一個分支，它企圖了解智慧的實質。", "big5hkscs"),
        ("안녕하세요 세계. 오늘 날씨가 좋습니다.", "cp949"),
        ("你好世界，今天天气很好。\n" * 5, "utf-16-le"),
    ],
)
def test_an_old_encoding_is_guessed_and_said_to_be_a_guess(text: str, encoding: str) -> None:
    file = decoded("alt.txt", text.encode(encoding))
    assert file.text == text
    assert file.guess is not None
    assert file.guess.encoding == encoding
    label = ENCODINGS[encoding]
    assert guess_words([file]) == (
        f"“alt.txt” was read as {label}. If it looks wrong, open it and choose another."
    )


def test_another_encoding_can_be_chosen() -> None:
    file = decoded("notes.txt", "設定\tkey=1\n".encode("cp932"))
    assert file.guess is not None
    assert read_as(file.guess, "cp932") == "設定\tkey=1\n"
    assert read_as(file.guess, "utf-8").endswith("\tkey=1\n"), "what it does not know is marked"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_that_can_be_chosen_is_one(encoding: str) -> None:
    assert read_as(Guess("utf-8", "key=1\n".encode(encoding)), encoding) == "key=1\n"


def test_colours_of_a_terminal_are_utf_8() -> None:
    file = decoded("log", "\x1b[31mrot\x1b[0m \x1b$ größer\n".encode())
    assert (file.text, file.guess) == ("\x1b[31mrot\x1b[0m \x1b$ größer\n", None)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (rb"{\rtf1\ansi Hello}", "an RTF document"),
        (b"%!PS-Adobe-3.0\n%%Title: x\nshowpage\n", "a PostScript file"),
    ],
)
def test_a_document_that_is_letters_inside_is_not_attached_raw(raw: bytes, kind: str) -> None:
    with pytest.raises(FileRefused, match=f"is {kind}, which can't be attached: "):
        decoded("paper", raw)


def refusal(path: Path) -> str:
    with pytest.raises(FileRefused) as caught:
        read_text_file(str(path))
    sentence = str(caught.value)
    assert "\n" not in sentence
    one = r"[^.]*(\.\w[^.]*)*\."
    assert re.fullmatch(f"{one}( {one})?", sentence), f"more than what and what next: {sentence}"
    return sentence


@pytest.mark.parametrize(
    "raw",
    [
        b"\x89PNG\0\1\2" * 99,
        b"\x93NUMPY\1\0F\0{'descr': '|O', 'fortran_order': False, 'shape': (4,), }        \n",
    ],
)
def test_binary_that_could_be_letters_of_two_bytes_is_refused(raw: bytes) -> None:
    with pytest.raises(FileRefused, match="this kind of file isn't supported"):
        decoded("picture.bin", raw)


def test_binary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(os.urandom(4096) + b"\0" * 100)
    assert refusal(path) == "“film.mp4” can't be attached: this kind of file isn't supported."


def test_binary_without_zeros_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(1, 256)) * 20)
    assert "this kind of file isn't supported" in refusal(path)


def test_50_mb_are_refused_without_reading_them(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    with path.open("wb") as file:
        file.truncate(50 * 2**20)
    assert refusal(path).startswith("“book.txt” is 52.4 MB; the limit is 8 MB")


def test_the_largest_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "most.txt"
    path.write_bytes(b"a" * MAX_BYTES)
    assert read_text_file(str(path)).size_bytes == MAX_BYTES


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "it isn't a regular file" in refusal(pipe)
    assert "is a folder" in refusal(tmp_path)
    assert "is no longer there" in refusal(tmp_path / "gone.txt")
    assert "it isn't a regular file" in refusal(Path("/dev/zero"))


@pytest.mark.parametrize("raw", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_nothing_to_attach(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "nothing.txt"
    path.write_bytes(raw)
    assert "is empty" in refusal(path)


def test_what_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the system's answer is played."""
    path = tmp_path / "secret.txt"
    path.write_text("secret")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert refusal(path) == (
        "You don't have permission to read “secret.txt”. Change its permissions or copy it."
    )


def test_names_are_shown_on_one_line() -> None:
    assert shown_name("/a/b\nc.txt") == "b c.txt"
    broken = b"/a/\xff.txt".decode(sys.getfilesystemencoding(), "surrogateescape")
    assert shown_name(broken) == "\ufffd.txt"


@given(st.binary(max_size=400))
def test_any_bytes_are_text_or_refused(raw: bytes) -> None:
    try:
        text = decoded("x", raw).text
    except FileRefused:
        return
    assert "\0" not in text
    assert text.encode("utf-8")
    assert text.strip()


PRINTABLE = st.characters(exclude_categories=["C", "Z"], include_characters=" ")


@given(st.text(PRINTABLE, min_size=1).filter(str.strip))
def test_printable_text_comes_back(text: str) -> None:
    assert text.isprintable()
    assert decoded("x", b"\xef\xbb\xbf" + text.encode()).text == text
