"""Text files that somebody attaches: read within bounds, or refused in one sentence.

What is not text, or holds its text in a form of its own, is refused (`app/reading` reads documents,
and opens files). What must hold: every refusal is a sentence that says what to do, and a guess
about the encoding is said as a guess, with the bytes kept, so that another encoding can be chosen.
chardet guesses: of 29 short samples it told 27, charset-normalizer 17.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.chat.replies.prompts import clean_message
from app.reading.document import DocumentRefused
from app.reading.files import read_bytes, shown_name
from models.records import File

MAX_BYTES: Final = 8_000_000
"""More than any context window holds."""

ENCODINGS: Final = {
    "utf-8": "UTF-8",
    "cp1252": "Western (Windows-1252)",
    "cp1250": "Central European (Windows-1250)",
    "cp1251": "Cyrillic (Windows-1251)",
    "koi8-r": "Cyrillic (KOI8-R)",
    "cp1253": "Greek (Windows-1253)",
    "cp1254": "Turkish (Windows-1254)",
    "cp1255": "Hebrew (Windows-1255)",
    "cp1256": "Arabic (Windows-1256)",
    "cp1257": "Baltic (Windows-1257)",
    "cp1258": "Vietnamese (Windows-1258)",
    "cp874": "Thai (Windows-874)",
    "cp932": "Japanese (Shift-JIS)",
    "euc_jp": "Japanese (EUC-JP)",
    "iso2022_jp": "Japanese (ISO-2022-JP)",
    "gb18030": "Chinese (GBK, GB18030)",
    "big5hkscs": "Chinese (Big5)",
    "cp949": "Korean (EUC-KR, CP949)",
    "utf-16-le": "UTF-16 LE",
    "utf-16-be": "UTF-16 BE",
}
"""What can be chosen, by Python's name; a label says whom it is for."""

_WESTERN: Final = frozenset(
    "àâäçèéêëîïñôöùûüßáíóúãõåæøœÀÂÄÇÈÉÊËÎÏÑÔÖÙÛÜÁÍÓÚÃÕÅÆØŒ¡¿«»“”‘’„–—…•€£§°©®ªº·×\xa0"
)
# Any two bytes are a letter in UTF-16, and chardet takes some binary files for it.
_MARKS_OF_TEXT: Final = frozenset("\n .,，、。．！？\u3000")
_WORD: Final = re.compile(r"[^\W\d_]+")
_LOOKED_AT: Final = 64 * 1024
_MOST_CONTROLS: Final = 0.01
_MARKS: Final = (
    # UTF-32 first: its mark begins as that of UTF-16 does.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MOST_NAMES: Final = 3
# Files of letters that are not their text: what marks them, what they are called, what to do.
_DOCUMENTS: Final = (
    (b"{\\rtf", "an RTF document", "save it as plain text"),
    (b"%!PS-Adobe", "a PostScript file", "copy its text and paste it"),
)


class FileRefused(Exception):  # noqa: N818 - an outcome with a sentence for the user
    """The file cannot be attached. The text says why and what to do; `kind`, why in a word or
    two, for files that are refused together."""

    def __init__(self, name: str, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Guess:
    """An encoding that was only guessed, by Python's name, and the file's bytes."""

    encoding: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class TextFile:
    """`guess`: where the text may not be what its author wrote. `kind` and `details` as its
    attachment has them; `note`: what to know about a document; `file`: the bytes of a picture or
    a sound, which has no text; `source`: the path of a web page, whose source may be wanted."""

    name: str
    text: str
    size_bytes: int
    guess: Guess | None = None
    kind: str = "text"
    details: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    file: File | None = None
    source: str = ""


def read_text_file(path: str) -> TextFile:
    """Read a file as text, or raise FileRefused. Never waits for a pipe."""
    name = shown_name(path)
    return decoded(name, _bytes_of(path, name))


def refusal_words(refused: Sequence[FileRefused]) -> str:
    """Of files that were given together: a sentence for one, a sum for several."""
    if len(refused) == 1:
        return str(refused[0])
    head = f"{len(refused):,} files weren't attached."
    return "\n".join([head, *_by_kind((each.kind, each.name) for each in refused)])


def guess_words(files: Sequence[TextFile]) -> str:
    """Of files whose encoding was guessed."""
    if len(files) == 1 and (guess := files[0].guess) is not None:
        label = encoding_label(guess.encoding)
        what = f"“{files[0].name}” was read as {label}"
        return f"{what}. If it looks wrong, open it and choose another."
    head = f"The encoding of {len(files):,} files was guessed. If one looks wrong, open it and "
    guessed = ((encoding_label(f.guess.encoding), f.name) for f in files if f.guess is not None)
    return "\n".join([f"{head}choose another.", *_by_kind(guessed)])


def _by_kind(files: Iterable[tuple[str, str]]) -> list[str]:
    """
    >>> _by_kind([("PDF", "a.pdf"), ("Empty", "b"), ("PDF", "c.pdf"), *[("Empty", "d")] * 3])
    ['PDF: “a.pdf”, “c.pdf”', 'Empty: “b”, “d”, “d” and 1 more']
    """
    names: dict[str, list[str]] = {}
    for kind, name in files:
        names.setdefault(kind, []).append(f"“{short_name(name)}”")
    return [
        f"{kind}: {', '.join(own[:_MOST_NAMES])}"
        + (f" and {len(own) - _MOST_NAMES:,} more" if len(own) > _MOST_NAMES else "")
        for kind, own in names.items()
    ]


def short_name(name: str) -> str:
    """With its end, which says what it is."""
    return name if len(name) <= 40 else f"{name[:26]}…{name[-12:]}"


def encoding_label(encoding: str) -> str:
    """
    >>> encoding_label("cp932"), encoding_label("mac_roman")
    ('Japanese (Shift-JIS)', 'mac_roman')
    """
    return ENCODINGS.get(encoding, encoding)


def decoded(name: str, raw: bytes) -> TextFile:
    """The text of a file's bytes, or FileRefused where it is no text.

    Without a mark at its beginning a file is UTF-8; else UTF-16 where every other byte is 0, as
    Windows' tools write it; else what chardet takes it for, which is a guess.
    """
    if not raw.strip():
        raise _empty(name)
    for mark, kind, advice in _DOCUMENTS:
        if raw.startswith(mark):
            sentence = f"“{name}” is {kind}, which can't be attached: {advice}."
            raise FileRefused(name, kind.split(maxsplit=1)[1], sentence)
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _sure(name, raw, encoding)
    head = raw[:_LOOKED_AT]
    if b"\0" in head and (encoding := _without_mark(head)):
        return _sure(name, raw, encoding)
    is_utf_8 = b"\0" not in head and _is_utf_8(raw)
    # ISO-2022-JP is ASCII with escapes, and so would pass for UTF-8.
    if is_utf_8 and b"\x1b$" not in head:
        return _sure(name, raw, "utf-8")
    encoding = _looks_like(raw)
    if is_utf_8 and encoding != "iso2022_jp":
        return _sure(name, raw, "utf-8")
    if not encoding:
        raise _not_text(name)
    text = _checked(name, raw.decode(encoding, "replace"))
    if encoding.startswith("utf-16") and _MARKS_OF_TEXT.isdisjoint(text):
        raise _not_text(name)
    return TextFile(name, text, len(text.encode()), Guess(encoding, raw))


def read_as(guess: Guess, encoding: str) -> str:
    """The same bytes in another encoding; what it does not know becomes U+FFFD."""
    return clean_message(guess.raw.decode(encoding, "replace"))


def _sure(name: str, raw: bytes, encoding: str) -> TextFile:
    text = _decoded_as(name, raw, encoding)
    return TextFile(name, text, len(text.encode()))


def _looks_like(raw: bytes) -> str:
    """What the beginning is encoded in, as `ENCODINGS` has it; "" where it is no text."""
    import chardet  # 0.1 s, for the few files that need it

    era = chardet.EncodingEra.MODERN_WEB
    found = chardet.detect(raw, encoding_era=era, prefer_superset=True, max_bytes=_LOOKED_AT)
    if found["encoding"] is None:
        return ""
    name = codecs.lookup(found["encoding"]).name
    if _is_western(raw, may_be_hungarian=found["language"] == "hu"):
        return "cp1252"
    name = {"big5": "big5hkscs"}.get(name, name)  # which holds all of it
    return next((own for own in ENCODINGS if codecs.lookup(own).name == name), name)


def _is_western(raw: bytes, *, may_be_hungarian: bool) -> bool:
    """Whether it is Latin words with a few Western letters in them: short ones chardet takes for
    Polish, Hebrew or Baltic, whose letters have the same bytes.

    In other alphabets whole words are beyond ASCII; Slavic, Baltic and Turkish texts read as
    Windows-1252 have letters that no Western language puts into a word (þ, ¿, ³, š). Hungarian
    alone could pass; it has ő in nearly every sentence, whose byte is õ here.
    """
    try:
        text = raw[:_LOOKED_AT].decode("cp1252")
    except UnicodeDecodeError:
        return False
    if any(not char.isascii() and char not in _WESTERN for char in text):
        return False
    if text.isascii() or (may_be_hungarian and "õ" in text.lower()):
        return False
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    n_mixed = sum(len(word) == 1 or any(map(str.isascii, word)) for word in words)
    return n_mixed >= 0.6 * len(words)


def _is_utf_8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _bytes_of(path: str, name: str) -> bytes:
    try:
        return read_bytes(path, name, MAX_BYTES)
    except DocumentRefused as why:
        raise FileRefused(name, why.kind, why.sentence) from why


def _empty(name: str) -> FileRefused:
    return FileRefused(name, "Empty", f"“{name}” is empty, so there is nothing to attach.")


def _not_text(name: str) -> FileRefused:
    sentence = f"“{name}” can't be attached: this kind of file isn't supported."
    return FileRefused(name, "Not text", sentence)


def _decoded_as(name: str, raw: bytes, encoding: str) -> str:
    try:
        return _checked(name, raw.decode(encoding))
    except UnicodeDecodeError:
        raise _not_text(name) from None


def _without_mark(head: bytes) -> str:
    """UTF-16 of mostly Latin text has a 0 in every other byte."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    if even > 0.4 * half and odd < 0.05 * half:
        return "utf-16-be"
    return ""


def _checked(name: str, text: str) -> str:
    """Text as it is stored; FileRefused where it is full of control characters."""
    head = text[:_LOOKED_AT]
    controls = sum(1 for c in head if (c < " " and c not in "\t\n\r\f\x1b") or c == "\x7f")
    if controls > _MOST_CONTROLS * len(head):
        raise _not_text(name)
    text = clean_message(text)
    if not text.strip():
        raise _empty(name)
    return text
